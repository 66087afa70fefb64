// An emulated provider on raw sockets: `node bench/upstream.ts --port 20000`. It speaks the dialects of OpenAI, Anthropic and
// Gemini, reads no more of a request than it must and answers from prepared text, because it has to cost far less than what is measured. The model
// slug says how to behave (lib/request.ts).
import { createServer, type Socket } from 'node:net'
import { nowUs } from './lib/clock.ts'
import { type Asked, answersOf, askedBy, type Dialect, emptyStamp, type Split } from './lib/dialects.ts'
import { readOptions } from './lib/options.ts'
import { type Behaviour, behaviourOf, stampText } from './lib/request.ts'
import { Wheel } from './lib/wheel.ts'

type Model = { behaviour: Behaviour; answer: Split; first: string; chunk: Split; last: string; refusals: number }

const streamHead =
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\nx-request-id: req_emulated\r\n\r\n'
const maxModels = 1_000
const models = new Map<string, Model>()
const wheel = new Wheel()

function split(text: string): Split {
  const [before, after] = text.split(emptyStamp)
  return [before!, after!]
}

function json(status: string, body: string): string {
  return `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nx-request-id: req_emulated\r\n\r\n${body}`
}

function refused(status: string, message: string): string {
  return json(status, JSON.stringify({ error: { message } }))
}

function prepare(dialect: Dialect, slug: string, behaviour: Behaviour): Model {
  const { whole, first, chunk, last } = answersOf[dialect](slug)
  return {
    behaviour,
    refusals: behaviour.refusals ?? 0,
    answer: split(json('200 OK', whole)),
    first: streamHead + first,
    chunk: split(chunk),
    last: `${last}0\r\n\r\n`,
  }
}

function modelOf({ dialect, slug: named }: Asked, body: string): Model | null {
  const slug = named ?? /"model": ?"([^"]+)"/.exec(body)?.[1] ?? ''
  const name = `${dialect} ${slug}`
  const known = models.get(name)
  const behaviour = known ? null : behaviourOf(slug)
  if (known || !behaviour || models.size >= maxModels) return known ?? null
  const model = prepare(dialect, slug, behaviour)
  models.set(name, model)
  return model
}

class Answer {
  readonly #socket: Socket
  readonly #model: Model
  readonly #receivedUs = Math.floor(nowUs())

  constructor(socket: Socket, model: Model) {
    this.#socket = socket
    this.#model = model
  }

  run(): void {
    const [before, after] = this.#model.answer
    this.#socket.write(before + stampText(this.#receivedUs, Math.floor(nowUs())) + after, 'latin1')
  }
}

/** Chunks are due at start + k · interval, whenever the earlier ones left: otherwise streams would drift into one burst. */
class Stream {
  readonly #socket: Socket
  readonly #model: Model
  readonly #receivedUs = Math.floor(nowUs())
  #sent = 0

  constructor(socket: Socket, model: Model) {
    this.#socket = socket
    this.#model = model
  }

  run(): void {
    if (this.#socket.destroyed) return
    const { behaviour, first, chunk, last: end } = this.#model
    const head = this.#sent++ === 0 ? first : ''
    const last = this.#sent >= behaviour.chunks
    const stamp = stampText(this.#receivedUs, Math.floor(nowUs()))
    this.#socket.write(head + chunk[0] + stamp + chunk[1] + (last ? end : ''), 'latin1')
    const dueMs = this.#receivedUs / 1e3 + behaviour.latencyMs + this.#sent * behaviour.intervalMs
    if (!last) wheel.at(dueMs, this)
  }
}

function respond(socket: Socket, path: string, body: string): void {
  const asked = askedBy(path)
  const model = asked && modelOf(asked, body)
  if (!model) return void socket.write(refused('404 Not Found', 'no such route or model'))
  if (model.refusals > 0) {
    model.refusals--
    return void socket.write(refused('503 Service Unavailable', 'overloaded'))
  }
  const job = (asked.stream ?? /"stream": ?true/.test(body)) ? new Stream(socket, model) : new Answer(socket, model)
  const { latencyMs } = model.behaviour
  if (latencyMs > 0) wheel.at(nowUs() / 1e3 + latencyMs, job)
  else job.run()
}

/** The body and the end of a request whose head ends at `from`; null while it is incomplete. */
function bodyOf(head: string, text: string, from: number): { body: string; end: number } | null {
  const [, length] = /\r\ncontent-length: *(\d+)/i.exec(head) ?? []
  if (length !== undefined) {
    const end = from + Number(length)
    return text.length < end ? null : { body: text.slice(from, end), end }
  }
  if (!/\r\ntransfer-encoding: *chunked/i.test(head)) return { body: '', end: from }
  const end = text.indexOf('0\r\n\r\n', from) // The framing stays in the body: only two fields of it are read.
  return end < 0 ? null : { body: text.slice(from, end), end: end + 5 }
}

function serve(socket: Socket): void {
  let pending = ''
  socket.on('error', () => {}) // A client that leaves; `close` follows.
  socket.on('data', data => {
    pending += data.toString('latin1')
    for (let headEnd = pending.indexOf('\r\n\r\n'); headEnd >= 0; headEnd = pending.indexOf('\r\n\r\n')) {
      const head = pending.slice(0, headEnd)
      const request = bodyOf(head, pending, headEnd + 4)
      if (!request) return
      pending = pending.slice(request.end)
      respond(socket, head.split(' ', 2)[1] ?? '', request.body)
    }
  })
}

const { values } = readOptions({ port: 0 })
createServer({ noDelay: true }, serve).listen({ host: '127.0.0.1', port: values.port, backlog: 4096 })
