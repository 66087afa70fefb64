import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import { discardBody, watchSender } from '../../api/body/read-body.ts'
import { createHttpServer } from '../../api/http-server.ts'
import type { GatewayError } from '../../shared/base/errors.ts'
import { ByteBudget, PieceCollector } from '../../shared/io/byte-budget.ts'
import { provisioningKey } from '../support/api/edge.ts'
import { eventually } from '../support/gateway.ts'
import { connectTo, formOf, formType, headOf, partOf } from '../support/io/raw-requests.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const kib = 1024

const gateway = useGateway(test, {
  HEYGEN_API_KEY: 'key',
  STRIPE_SECRET_KEY: 'sk_test_x',
  STRIPE_WEBHOOK_SECRET: 'whsec_x',
})
const account = use(test, () => gateway.account())

const jsonHeaders = { 'content-type': 'application/json', 'transfer-encoding': 'chunked' }

/** A text in the chunked encoding, in chunks of one size. */
function chunked(text: Buffer | string, bytes: number): Buffer {
  const whole = Buffer.from(text)
  const parts: Buffer[] = []
  for (let at = 0; at < whole.length; at += bytes) {
    const part = whole.subarray(at, at + bytes)
    parts.push(Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n'))
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n\r\n')])
}

/** Sends a request; what came back once the text matches, or the connection ended. */
async function answerTo(head: string, body: Buffer): Promise<string> {
  const socket = await connectTo(gateway.url)
  let answer = ''
  let isOver = false
  socket.on('data', part => {
    answer += part
  })
  socket.on('error', () => {})
  socket.on('close', () => {
    isOver = true
  })
  socket.write(head)
  socket.write(body)
  await eventually(() => isOver || answer.includes('\r\n\r\n{'), 'it is answered')
  socket.destroy()
  return answer
}

const chat = (text: string) => JSON.stringify({ model: 'gpt-5-nano', messages: [{ role: 'user', content: text }] })
const tiny = /^HTTP\/1.1 400 .*connection: close.*thousands of tiny pieces.*invalid_request/is

test.serial(
  '400 for a JSON body in thousands of chunks of a byte, with and without a key; nothing of it is held',
  async t => {
    const { budgets } = gateway.services
    const provisioning = await provisioningKey(gateway, account.organisationId)
    const entrances: [path: string, key: string][] = [
      ['/v1/chat/completions', account.test],
      ['/v1/messages', account.test],
      ['/v1/responses', account.live],
      ['/api/v1/keys', provisioning],
      ['/callbacks/heygen', 'none'],
      ['/webhooks/stripe', 'none'],
      ['/dashboard/api/auth/sign-in/email', 'none'],
    ]
    for (const [path, key] of entrances) {
      const headers = { ...jsonHeaders, origin: gateway.url, 'stripe-signature': 't=1,v1=x' }
      t.regex(await answerTo(headOf(path, key, headers), chunked('x'.repeat(20_000), 1)), tiny, path)
    }
    await eventually(() => budgets.bodies.bytes === 0 && budgets.publicBodies.bytes === 0, 'nothing is held')
  },
)

test.serial('400 for a form in thousands of chunks of a byte; nothing of it is stored', async t => {
  const form = formOf(partOf('purpose', 'batch'), partOf('file', 'x'.repeat(20_000), 'a.jsonl', 'application/jsonl'))
  const headers = { 'content-type': formType, 'transfer-encoding': 'chunked' }
  t.regex(await answerTo(headOf('/v1/files', account.test, headers), chunked(form, 1)), tiny)
  const files = await gateway.fetch('/v1/files', { key: account.test })
  t.deepEqual(((await files.json()) as { data: [] }).data, [])
})

test.serial(
  '200 for a body in pieces of a few bytes, as long as they are not thousands, and in many of 64',
  async t => {
    const headers = headOf('/v1/chat/completions', account.test, jsonHeaders)
    const few = 'few '.repeat(700)
    const answer = await answerTo(headers, chunked(chat(few), 1))
    t.regex(answer, /^HTTP\/1.1 200 /)
    t.true(answer.includes(few.trim()))
    const many = 'many '.repeat(100_000)
    t.regex(await answerTo(headers, chunked(chat(many), 64)), /^HTTP\/1.1 200 /)
  },
)

test.serial('200 for a form in pieces of a few bytes', async t => {
  const content = `${JSON.stringify({ a: 'b'.repeat(3_000) })}\n`
  const form = formOf(partOf('purpose', 'batch'), partOf('file', content, 'a.jsonl', 'application/jsonl'))
  const headers = { 'content-type': formType, 'transfer-encoding': 'chunked' }
  const answer = await answerTo(headOf('/v1/files', account.test, headers), chunked(form, 1))
  t.regex(answer, /^HTTP\/1.1 200 /)
  const { id } = JSON.parse(/\{.*\}/s.exec(answer)![0])
  const stored = await gateway.fetch(`/v1/files/${id}/content`, { key: account.test })
  t.is(await stored.text(), content)
})

test('collected: any pieces, in their order, in few parts', t => {
  const piece = fc.oneof(
    { weight: 5, arbitrary: fc.uint8Array({ maxLength: 3 }) },
    fc.uint8Array({ minLength: 500, maxLength: 1_500 }),
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 300 }), pieces => {
      const collector = new PieceCollector()
      for (const piece of pieces) collector.add(Buffer.from(piece))
      const whole = Buffer.concat(pieces)
      t.is(collector.bytes, whole.length)
      t.true(collector.take().equals(whole))
      t.is(collector.bytes, 0)
    }),
    { numRuns: 100 },
  )
  const one = Buffer.from('one')
  const collector = new PieceCollector()
  collector.add(one)
  t.is(collector.take(), one, 'an ordinary body is not copied')
})

/** A request to a server as a web process has it, before anybody reads its body. */
async function unread(body: Buffer): Promise<{ request: IncomingMessage; end(): void }> {
  const arrived = Promise.withResolvers<IncomingMessage>()
  const { server } = createHttpServer({ keepAliveTimeoutMs: 1_000, maxConnections: 10, trustedProxies: 0 }, request =>
    arrived.resolve(request),
  )
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write('POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n')
  socket.write(body)
  const request = await arrived.promise
  const end = () => {
    socket.destroy()
    server.close()
  }
  return { request, end }
}

test('a body that nobody reads waits in blocks, and is whole once it is read', async t => {
  const text = Array.from({ length: 30_000 }, (_, i) => String.fromCharCode(97 + (i % 26))).join('')
  const { request, end } = await unread(chunked(text, 1))
  await eventually(() => request.complete, 'all of it has arrived')
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part)
  t.is(Buffer.concat(parts).toString(), text)
  t.true(parts.length < 10, `${parts.length} parts`)
  end()
})

test('a body that nobody reads is not read beyond its buffer', async t => {
  const { request, end } = await unread(chunked('x'.repeat(1_000_000), 1))
  const { socket } = request
  let seen = -1
  while (seen !== socket.bytesRead) {
    seen = socket.bytesRead
    for (let turn = 0; turn < 50; turn++) await setImmediate()
  }
  t.true(socket.bytesRead < 1_000_000, `${socket.bytesRead} bytes read`)
  end()
})

/** A request whose connection has read so many bytes more each time that one looks. */
function arriving(bytesPerLook: number, contentLength?: number): IncomingMessage {
  let bytesRead = 0
  const socket = {
    get bytesRead() {
      return (bytesRead += bytesPerLook)
    },
  } as Socket
  const headers = contentLength === undefined ? {} : { 'content-length': String(contentLength) }
  return { socket, headers, isPaused: () => false } as unknown as IncomingMessage
}

/** The bytes that arrived until a sender was refused, and how. */
function refusal(request: IncomingMessage, budget: ByteBudget): Promise<{ error: GatewayError; bytes: number }> {
  return new Promise(resolve => {
    const held = budget.open('me')
    const refuse = (error: GatewayError) => {
      unwatch()
      resolve({ error, bytes: request.socket.bytesRead })
    }
    const unwatch = watchSender(request, refuse, 1, held)
  })
}

test('a slow sender: 408 beyond 256 KiB, of a body announced to be larger, or without progress; not before', async t => {
  const budget = new ByteBudget(1024 * kib, 'request bodies')
  const slow = await refusal(arriving(9_000), budget)
  t.is(slow.error.code, 'request_timeout')
  t.true(slow.bytes > 256 * kib && slow.bytes < 300 * kib, `${slow.bytes}`)
  const announced = await refusal(arriving(9_000, 10_000_000), budget)
  t.is(announced.error.code, 'request_timeout')
  t.true(announced.bytes < 50_000)
  const gone = await refusal(arriving(100, 20_000), budget)
  t.is(gone.error.code, 'request_timeout')
  t.true(gone.bytes < 1_000)
  t.is(budget.bytes, 0, 'nothing is held of a sender that is over')
})

test('a closed connection some time after the answer to a refused body whose sender stops', async t => {
  const config = { keepAliveTimeoutMs: 5_000, maxConnections: 10, trustedProxies: 0 }
  const { server } = createHttpServer(config, (request, response) => {
    discardBody(request, 1)
    response.writeHead(413, { connection: 'close', 'content-length': 0 }).end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  socket.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nbegun')
  const [accepted] = (await once(server, 'connection')) as [Socket]
  const [answer] = await once(socket, 'data')
  t.regex(String(answer), /^HTTP\/1\.1 413 /)
  if (!accepted.destroyed) await once(accepted, 'close')
  t.true(accepted.destroyed)
  socket.destroy()
  server.close()
})

test('429 for one slow sender too many of an organisation', async t => {
  const budget = new ByteBudget(256 * kib, 'request bodies')
  const others = budget.open('me')
  others.take(65 * kib)
  const { error } = await refusal(arriving(9_000, 20_000), budget)
  t.is(error.code, 'rate_limit_exceeded')
  t.is(error.headers.connection, 'close')
  others.release()
})
