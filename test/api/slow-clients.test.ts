import { once } from 'node:events'
import http from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { HttpResponse } from '../../api/http-response.ts'
import { releaseWhenSent } from '../../api/middleware/body.ts'
import { watchSender } from '../../api/middleware/sender.ts'
import { closeRequest, failRequest, openRequest } from '../../api/request-lifecycle.ts'
import type { State } from '../../api/state.ts'
import type { GatewayError } from '../../shared/base/errors.ts'
import { ByteBudget } from '../../shared/io/byte-budget.ts'
import { answersError, validBodies } from '../support/api/edge.ts'
import { eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const mib = 1024 * 1024
const chat = '/v1/chat/completions'

const gateway = useGateway(test, { MAX_BODY_MIB_IN_FLIGHT: '20', HEYGEN_API_KEY: 'key' })
const account = use(test, () => gateway.account())

/** Begins a request with a body of `bytes`, of which `sent` are sent; what comes back is gathered. */
function begin(path: string, headers: string[], bytes: number, sent: number): { socket: Socket; answer(): string } {
  const { port, hostname } = new URL(gateway.url)
  const socket = connect(Number(port), hostname)
  let answer = ''
  socket.on('data', part => {
    answer += part
  })
  socket.on('error', () => {})
  const head = [`POST ${path} HTTP/1.1`, 'host: x', 'content-type: application/json', `content-length: ${bytes}`]
  socket.write(`${[...head, ...headers].join('\r\n')}\r\n\r\n`)
  socket.write(Buffer.alloc(sent, ' '))
  return { socket, answer: () => answer }
}

const { bodies, publicBodies } = {
  bodies: () => gateway.services.budgets.bodies.bytes,
  publicBodies: () => gateway.services.budgets.publicBodies.bytes,
}

test.serial('404 before a body is read: a report of no provider, of none that is set up, or with no token', async t => {
  for (const path of ['/callbacks/nobody', '/callbacks/fal', '/callbacks/openai', '/callbacks/job_1/token']) {
    const { socket, answer } = begin(path, [], mib, 10)
    await eventually(() => answer().includes('\r\n\r\n'), 'it is answered')
    t.regex(answer(), /^HTTP\/1.1 404 /, path)
    socket.destroy()
  }
  t.is(publicBodies(), 0)
})

test.serial('404 before a body is read where payments are off; 413 for a report beyond 256 KiB', async t => {
  const stripe = begin('/webhooks/stripe', [], mib, 10)
  await eventually(() => stripe.answer().includes('\r\n\r\n'), 'it is answered')
  t.regex(stripe.answer(), /^HTTP\/1.1 404 /)
  stripe.socket.destroy()
  const body = ' '.repeat(256 * 1024 + 1)
  await answersError(t, await gateway.fetch('/callbacks/heygen', { body }), 'request_too_large')
})

test.serial('401 before a body is read, on every kind of route', async t => {
  for (const path of [chat, '/v1/images', '/v1/uploads', '/api/v1/keys', '/v1/batches']) {
    const { socket, answer } = begin(path, [], 9 * mib, 10)
    await eventually(() => answer().includes('\r\n\r\n'), 'it is answered')
    t.regex(answer(), /^HTTP\/1.1 401 /, path)
    socket.destroy()
  }
})

test.serial(
  '429 for an organisation with half of all bytes of bodies under way, 503 once all are taken; others are served until then',
  async t => {
    const other = await gateway.account()
    const third = await gateway.account()
    const key = (secret: string) => [`authorization: Bearer ${secret}`]
    const first = begin(chat, key(account.test), 10 * mib, 9 * mib)
    await eventually(() => bodies() === 9 * mib, 'nine MiB are held')
    const more = begin(chat, key(account.test), 10 * mib, 2 * mib)
    await eventually(() => more.answer().includes('}}'), 'it is answered')
    t.regex(more.answer(), /^HTTP\/1.1 429 .*retry-after: 1.*rate_limit_exceeded/s)
    const body = validBodies[chat]
    t.is((await gateway.fetch(chat, { key: other.test, body })).status, 200)
    const second = begin(chat, key(other.test), 10 * mib, 9.5 * mib)
    await eventually(() => bodies() === 18.5 * mib, 'more is held')
    t.is((await gateway.fetch(chat, { key: third.test, body })).status, 200)
    const last = begin(chat, key(third.test), 10 * mib, 3 * mib)
    await eventually(() => last.answer().includes('}}'), 'it is answered')
    t.regex(last.answer(), /^HTTP\/1.1 503 .*retry-after: 1.*service_unavailable/s)
    for (const { socket } of [first, second, more, last]) socket.destroy()
    await eventually(() => bodies() === 0, 'nothing is held any more')
    t.is((await gateway.fetch(chat, { key: account.test, body })).status, 200)
  },
)

test.serial('429 for an address that holds 8 MiB of bodies without a key: nothing is kept of the rest', async t => {
  const reports = Array.from({ length: 40 }, () => begin('/callbacks/heygen', [], 256 * 1024, 250 * 1024))
  await eventually(() => reports.some(({ answer }) => answer().includes('}}')), 'one is answered')
  t.true(publicBodies() <= 8 * mib)
  t.regex(reports.map(({ answer }) => answer()).find(text => text !== '')!, /^HTTP\/1.1 429 /)
  for (const { socket } of reports) socket.destroy()
  await eventually(() => publicBodies() === 0, 'nothing is held any more')
})

test('429 for an owner of half a budget, 503 for all of it; what is released can be taken again', t => {
  const budget = new ByteBudget(100, 'answers')
  const mine = budget.open('me')
  const yours = budget.open('you')
  mine.take(50)
  t.like(
    t.throws<GatewayError>(() => mine.take(1)),
    { code: 'rate_limit_exceeded', headers: { 'retry-after': '1' } },
  )
  yours.take(30)
  t.is(t.throws<GatewayError>(() => yours.take(21)).code, 'service_unavailable')
  // Bytes already received count even over the limit; then there is no room left.
  yours.hold(40)
  t.is(budget.bytes, 120)
  t.is(t.throws<GatewayError>(() => budget.open('they').take(0)).code, 'service_unavailable')
  yours.release()
  yours.release()
  yours.hold(10)
  t.is(budget.bytes, 50)
  mine.release()
  budget.open('they').take(50)
  t.is(budget.bytes, 50)
})

/** A server for one request, and a connection to it. */
async function served(handle: (request: http.IncomingMessage, response: http.ServerResponse) => void, body = '') {
  const server = http.createServer((request, response) => {
    response.once('close', () => server.close())
    handle(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n${body}`)
  const close = () => {
    socket.destroy()
    server.close()
  }
  return { socket, close }
}

test('408 for a sender that brings less than it must; none for one that we keep waiting', async t => {
  let paused = true
  const error = await new Promise<GatewayError>(resolve => {
    const world = served(request => {
      request.pause()
      // Some windows go by without harm.
      const unwatch = watchSender(
        request,
        error => {
          unwatch()
          t.false(paused)
          resolve(error)
          void world.then(({ close }) => close())
        },
        20,
      )
      setTimeout(() => {
        paused = false
        request.resume()
      }, 100)
    }, '{')
  })
  t.is(error.code, 'request_timeout')
  t.is(error.headers.connection, 'close')
})

const large = 'x'.repeat(30 * mib)
const patience = { stalledMs: 50, leaveMs: 50, bytesPerMs: 1e6 }

test('cut: a client that does not take a whole answer, whatever it sends meanwhile; its bytes are released', async t => {
  const budget = new ByteBudget(100 * mib, 'answers')
  let held = 0
  const closed = new Promise<void>(resolve => {
    void served((_request, response) => {
      const client = new HttpResponse(response, {}, patience)
      const account = budget.open('me')
      client.chargeTo(account)
      client.collect(1_000)
      client.reply(200, {}, large.slice(0, 8 * mib))
      held = budget.bytes
      releaseWhenSent(client, [account])
      response.on('close', resolve)
    }).then(({ socket }) => {
      const trickle = setInterval(() => socket.write(' '), 10)
      socket.on('close', () => clearInterval(trickle))
    })
  })
  await closed
  t.is(held, 2 * 8 * mib) // As text, and as written.
  t.is(budget.bytes, 0)
})

test('cut: a client that stops reading a file, whatever it sends meanwhile', async t => {
  const source = Readable.from(
    (function* () {
      for (;;) yield Buffer.alloc(64 * 1024)
    })(),
  )
  await new Promise<void>(resolve => {
    void served((_request, response) => {
      new HttpResponse(response, {}, patience).watchForeignWrites()
      source.pipe(response)
      response.on('close', resolve)
    }).then(({ socket }) => {
      const trickle = setInterval(() => socket.write(' '), 10)
      socket.on('close', () => clearInterval(trickle))
    })
  })
  source.destroy()
  t.pass()
})

test('sent to its end: an answer that is read late but in time', async t => {
  const { socket, close } = await served((_request, response) => {
    new HttpResponse(response, {}, { stalledMs: 60_000, leaveMs: 60_000, bytesPerMs: 32 }).reply(200, {}, large)
  })
  let bytes = 0
  socket.on('data', part => {
    bytes += part.length
  })
  await eventually(() => bytes > large.length, 'all of it came')
  close()
  t.pass()
})

const handlers: [name: string, answer: string | null, handle: (state: State) => Promise<void>][] = [
  ['in the same turn', '{"a":1}', async ({ client }) => client.reply(200, {}, '{"a":1}')],
  [
    'while the client reads it',
    large,
    async ({ client }) => {
      client.reply(200, {}, large)
      await setImmediate()
    },
  ],
  [
    'after the end of a stream',
    'data: 1\n\n',
    async ({ client }) => {
      client.open({})
      client.write('data: 1\n\n', 'latin1')
      client.end()
    },
  ],
  [
    'before the end of a stream: cut off',
    null,
    async ({ client }) => {
      client.open({})
      client.write('data: 1\n\n', 'latin1')
    },
  ],
]

for (const [name, answer, handle] of handlers) {
  test.serial(`a handler that fails after it answered, ${name}`, async t => {
    const server = http.createServer(async (request, response) => {
      const state = openRequest(gateway.services, request, response, 'POST', chat)
      try {
        await handle(state)
        throw new Error('too late')
      } catch (error) {
        failRequest(state, error)
      }
      closeRequest(state, response.statusCode)
    })
    t.teardown(() => server.close())
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const text = await fetch(url)
      .then(response => response.text())
      .catch(() => null)
    t.true(text === answer, text?.slice(0, 100))
  })
}
