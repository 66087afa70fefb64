import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { png } from './png.ts'
import { sound } from './sounds.ts'

/** How a provider takes one call. `held`: it stops in the middle for a while, and then breaks off. */
export const behaviours = [
  ...['right', 'right', 'right', 'uncounted', 'refuses', 'nonsense', 'cut', 'cut', 'held', 'held', 'spoilt', 'partly'],
  ...['silent', '400', '401', '429', '500', '503'],
] as const
export type Behaviour = (typeof behaviours)[number]

/** A call that reached a provider. */
export type Called = { provider: string; behaviour: string }

/** The replies for the calls of one test request, in order; later calls succeed. */
export type Script = {
  behaviours: string[]
  calls: Called[]
  /** Settles at its first call. */
  reached: PromiseWithResolvers<void>
  /** Settles once half of an answer has been sent, and no more is. */
  halted: PromiseWithResolvers<void>
  /** Settles once its client has seen the beginning of an answer. */
  seen: PromiseWithResolvers<void>
}

export const heardText = 'What was said was written down.'
export const soundSeconds = 2
const heldMs = 40
const sentMs = 10
/** Less than a frame has. */
const headBytes = 20
const image = png(16)
const spoilt = image.subarray(0, image.length / 2)
export const speech: Buffer = await sound('mp3', soundSeconds)

/**
 * Providers of one address, `/alpha` and `/beta` with OpenAI's routes for images, speech and transcriptions, `/gamma` with
 * fal's queue. A request says by `ask-<number>-` in a text of its own which script it is of.
 */
export class ScriptedUpstream {
  readonly url: string
  readonly scripts = new Map<string, Script>()
  /** Answers under way. */
  open = 0
  readonly #server: http.Server

  private constructor(server: http.Server) {
    this.#server = server
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    server.on('request', (request, response) => void this.#serve(request, response))
  }

  static async start(): Promise<ScriptedUpstream> {
    const server = http.createServer({ keepAliveTimeout: 60_000 }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new ScriptedUpstream(server)
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  add(name: string, script: string[]): Script {
    const [reached, halted, seen] = [1, 2, 3].map(() => Promise.withResolvers<void>())
    const added = { behaviours: [...script], calls: [], reached: reached!, halted: halted!, seen: seen! }
    this.scripts.set(name, added)
    return added
  }

  async #serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    this.open++
    response.once('close', () => this.open--)
    const body = await buffer(request).catch(() => null)
    if (!body) return // It was given up while it was sent.
    const raw = body.toString('latin1')
    const [, provider = '', path = ''] = /^\/(\w+)(\/.*)$/.exec(request.url!)!
    const name = /ask-\d+-/.exec(path + raw)![0]
    const script = this.scripts.get(name)!
    if (provider === 'gamma') return this.#queue(script, name, path, response)
    const behaviour = this.#next(script, provider)
    const answer = path.startsWith('/images') ? drawn(raw, behaviour) : sounding(path, raw, behaviour)
    await reply(response, behaviour, script, answer)
  }

  #next(script: Script, provider: string): string {
    const behaviour = script.behaviours.shift() ?? 'right'
    script.calls.push({ provider, behaviour })
    script.reached.resolve()
    return behaviour
  }

  /** Slow work is over at its second look. Its fate is in its id: what its start does, or what its result is. */
  async #queue(script: Script, name: string, path: string, response: http.ServerResponse): Promise<void> {
    const [, app = '', fate = '', look = ''] = /\/(\w+)\/requests\/ask-\d+-(\w+)(?:-\w+)?(\/\w+)?$/.exec(path) ?? []
    if (path.startsWith('/files/'))
      return reply(response, path.endsWith('-uncounted') ? 'cut' : 'right', script, file(path))
    if (!fate) {
      const behaviour = this.#next(script, 'gamma')
      const atStart = ['refuses', 'nonsense', 'cut', '400', '401', '429', '500', '503'].includes(behaviour)
      const id = `${name}${behaviour}-${script.calls.length}`
      return reply(response, atStart ? behaviour : 'right', script, { type: json, body: text({ request_id: id }) })
    }
    if (look === '/cancel') return reply(response, 'right', script, { type: json, body: text({ status: 'CANCELLED' }) })
    const isOver = look === '/status' && fate !== 'held'
    if (look === '/status')
      return reply(response, 'right', script, { type: json, body: text({ status: isOver ? 'COMPLETED' : 'IN_QUEUE' }) })
    const url = `${this.url}/gamma/files/${app}/${name}${fate}`
    const body = text(fate === 'silent' ? { images: [] } : { images: [{ url }], audio: { url } })
    return reply(response, 'right', script, { type: json, body })
  }
}

type Answer = { type: string; body: Buffer }
const json = 'application/json'
const sse = 'text/event-stream'
const text = (value: unknown) => Buffer.from(JSON.stringify(value))
const events = (values: object[]) => Buffer.from(values.map(value => `data: ${JSON.stringify(value)}\n\n`).join(''))

/** Tokens as they are counted: for each image, for all speech, for all that is heard. */
export const counted = { prompt: 10, image: 100, spoken: 50, heard: 20, said: 5 }

function drawn(raw: string, behaviour: string): Answer {
  const n = Number(/"n":(\d+)/.exec(raw)?.[1] ?? /name="n"\r\n\r\n(\d+)/.exec(raw)?.[1] ?? 1)
  const bad = { spoilt: n, partly: 1, silent: 0 }[behaviour] ?? 0
  const images = behaviour === 'silent' ? [] : Array.from({ length: n }, (_, i) => (i < bad ? spoilt : image))
  const details = { text_tokens: counted.prompt, image_tokens: 0 }
  const output_tokens = counted.image * n
  const usage = { input_tokens: counted.prompt, input_tokens_details: details, output_tokens }
  const data = images.map(bytes => ({ b64_json: bytes.toString('base64') }))
  return { type: json, body: text({ created: 1, data, ...(behaviour !== 'uncounted' && { usage }) }) }
}

function sounding(path: string, raw: string, behaviour: string): Answer {
  if (path === '/audio/transcriptions') return transcript(/name="stream"/.test(raw), behaviour)
  const bytes = { silent: Buffer.alloc(0), spoilt: speech.subarray(0, headBytes) }[behaviour] ?? speech
  if (!/"stream_format":"sse"/.test(raw)) return { type: 'audio/mpeg', body: bytes }
  const pieces = [bytes.subarray(0, bytes.length / 2), bytes.subarray(bytes.length / 2)]
  const usage = { input_tokens: counted.prompt, output_tokens: counted.spoken }
  const deltas = pieces.map(piece => ({ type: 'speech.audio.delta', audio: piece.toString('base64') }))
  return {
    type: sse,
    body: events([...deltas, { type: 'speech.audio.done', ...(behaviour !== 'uncounted' && { usage }) }]),
  }
}

function transcript(streams: boolean, behaviour: string): Answer {
  const said = behaviour === 'silent' ? '' : heardText
  const input_token_details = { audio_tokens: counted.heard, text_tokens: 0 }
  const tokens = { input_tokens: counted.heard, input_token_details, output_tokens: said ? counted.said : 0 }
  const whole = { text: said, ...(behaviour !== 'uncounted' && { usage: { type: 'tokens', ...tokens } }) }
  if (!streams) return { type: json, body: text(whole) }
  const deltas = said.match(/\S+\s*/g) ?? []
  const pieces = deltas.map(delta => ({ type: 'transcript.text.delta', delta }))
  return { type: sse, body: events([...pieces, { type: 'transcript.text.done', ...whole }]) }
}

/** A file of the queue’s: an image or a sound, whole or not. */
function file(path: string): Answer {
  const isSound = /sound/.test(path)
  const whole = isSound ? speech : image
  const body =
    path.endsWith('-spoilt') || path.endsWith('-partly')
      ? whole.subarray(0, isSound ? headBytes : spoilt.length)
      : whole
  return { type: isSound ? 'audio/mpeg' : 'image/png', body }
}

async function reply(response: http.ServerResponse, behaviour: string, script: Script, answer: Answer): Promise<void> {
  const { type, body } = answer
  if (behaviour === 'refuses') return void response.socket?.resetAndDestroy()
  if (/^\d+$/.test(behaviour))
    return void response
      .writeHead(Number(behaviour), { 'content-type': json })
      .end(text({ error: { message: `It answers ${behaviour}.`, type: 'error', code: null, param: null } }))
  response.on('error', () => {})
  if (behaviour === 'nonsense') return void response.writeHead(200, { 'content-type': json }).end('{"what":[1,')
  response.writeHead(200, { 'content-type': type })
  if (behaviour !== 'cut' && behaviour !== 'held') return void response.end(body)
  await new Promise(resolve => response.write(body.subarray(0, body.length / 2), resolve))
  // A connection that breaks at once takes with it what was sent.
  if (behaviour === 'held') script.halted.resolve()
  await Promise.race([script.seen.promise, sleep(behaviour === 'held' ? heldMs : sentMs)])
  response.socket?.destroy()
}
