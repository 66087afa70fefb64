import { once } from 'node:events'
import type { RequestListener, ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { createHttpServer } from '../../api/http-server.ts'
import { eventually } from '../support/gateway.ts'
import { type ExecutionContext, test } from '../support/test.ts'

const request = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n'

/** A client's connection, from one of the addresses of this machine. */
class Client {
  readonly socket: Socket
  text = ''
  isOver = false

  constructor(port: number, from: string) {
    this.socket = connect({ port, host: '127.0.0.1', localAddress: from })
    this.socket.on('data', part => {
      this.text += part
    })
    this.socket.on('error', () => {})
    this.socket.on('close', () => {
      this.isOver = true
    })
  }

  get answers(): number {
    return this.text.split('HTTP/1.1 200').length - 1
  }

  /** Sends a request and waits until it is answered or the connection closed. */
  async ask(): Promise<this> {
    const before = this.answers
    this.socket.write(request)
    await eventually(() => this.isOver || this.answers > before, 'it is answered')
    return this
  }
}

type Limits = { maxConnections?: number; trustedProxies?: number }

/** A server as a web process has it; `open` connects to it. */
async function serving(t: ExecutionContext, handle: RequestListener, limits: Limits = {}) {
  const { server } = createHttpServer(
    { keepAliveTimeoutMs: 60_000, maxConnections: 100, trustedProxies: 0, ...limits },
    handle,
  )
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const clients: Client[] = []
  t.teardown(() => {
    for (const { socket } of clients) socket.destroy()
    server.closeAllConnections()
    server.close()
  })
  return (from = '127.0.0.1') => {
    const client = new Client(port, from)
    clients.push(client)
    return client
  }
}

const answer: RequestListener = (_request, response) => void response.end('ok')

test('429 for the ninth request in flight of a connection, after the answers before it; then it closes', async t => {
  const waiting: ServerResponse[] = []
  const open = await serving(t, (_request, response) => void waiting.push(response))
  const client = open()
  client.socket.write(request.repeat(20))
  await eventually(() => waiting.length === 8, 'eight are in progress')
  t.false(client.isOver)
  for (const response of waiting) response.end('ok')
  await eventually(() => client.isOver, 'the connection is closed')
  t.is(waiting.length, 8)
  t.is(client.answers, 8)
  t.regex(client.text, /HTTP\/1.1 429 .*At most 8 requests.*rate_limit_exceeded/s)
})

test('200 for each of a thousand requests, eight of them in flight at a time', async t => {
  const open = await serving(t, answer)
  const client = open()
  for (let sent = 0; sent < 1_000; sent += 8) {
    client.socket.write(request.repeat(8))
    await eventually(() => client.answers === sent + 8 || client.isOver, 'they are answered')
  }
  t.is(client.answers, 1_000)
  t.false(client.isOver)
})

test('closed: a connection that sends thousands of requests without waiting for an answer', async t => {
  let served = 0
  const open = await serving(t, () => void served++)
  const client = open()
  client.socket.write(request.repeat(5_000))
  await eventually(() => client.isOver, 'the connection is closed')
  t.is(served, 8)
})

test('a full process closes the longest idle connection for a newcomer', async t => {
  const open = await serving(t, answer, { maxConnections: 4, trustedProxies: 1 })
  const clients: Client[] = []
  for (let i = 0; i < 4; i++) clients.push(await open().ask())
  await clients[0]!.ask()
  t.is((await open().ask()).answers, 1)
  await eventually(() => clients[1]!.isOver, 'the longest idle one is closed')
  t.is((await open().ask()).answers, 1)
  await eventually(() => clients[2]!.isOver, 'the next one is closed')
  t.deepEqual(
    clients.map(({ isOver }) => isOver),
    [false, true, true, false],
  )
})

test('a full process without an idle connection refuses a newcomer, until one is idle or closes', async t => {
  const waiting: ServerResponse[] = []
  const open = await serving(t, (_request, response) => void waiting.push(response), { maxConnections: 2 })
  const clients = [open(), open()]
  for (const { socket } of clients) socket.write(request)
  await eventually(() => waiting.length === 2, 'both are in progress')
  const refused = await open().ask()
  t.true(refused.isOver)
  t.is(refused.text, '')
  waiting[0]!.end('ok')
  await eventually(() => clients.some(({ answers }) => answers === 1), 'one is idle')
  open().socket.write(request)
  await eventually(() => waiting.length === 3, 'a newcomer is served')
})

test('an address with many idle connections loses its own first, the longest idle of all', async t => {
  const open = await serving(t, answer, { maxConnections: 32 })
  const first = await open('127.0.0.2').ask()
  const many: Client[] = []
  for (let i = 0; i < 31; i++) many.push(await open('127.0.0.3').ask())
  for (let i = 0; i < 10; i++) {
    t.is((await open('127.0.0.4').ask()).answers, 1)
    await eventually(() => many[i]!.isOver, 'one is closed for it')
  }
  t.false(first.isOver)
  t.true(many.slice(10).every(({ isOver }) => !isOver))
})

test('a client that opens twice the connections there may be does not keep others out', async t => {
  const open = await serving(t, answer, { maxConnections: 50 })
  for (let i = 0; i < 100; i++) open('127.0.0.3').socket.write(request)
  t.is((await open('127.0.0.2').ask()).answers, 1)
})
