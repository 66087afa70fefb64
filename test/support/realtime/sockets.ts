import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { WebSocket } from 'ws'
import { type Clock, systemClock } from '../../../shared/base/time.ts'
import { type Frame, type ProviderSession, SessionEmulator } from '../../emulators/sessions.ts'
import {
  type Account,
  eventually,
  freshStores,
  type Gateway,
  type KeyOptions,
  type Stores,
  startGateway,
} from '../gateway.ts'

export const realtimeModel = 'gpt-realtime-2.1'
/** What no client may ever see. */
export const providerSecret = 'provider-secret-0123456789'

/** A gateway in front of an emulated provider of sessions, and an account. */
export type RealtimeWorld = Account & {
  gateway: Gateway
  provider: SessionEmulator
  stores: Stores
  /** The settings of the gateway, for a process of its own. */
  env: Record<string, string>
  /** An account of its own for one test. */
  account(options?: KeyOptions & { usd?: string }): Promise<Account>
  close(): Promise<void>
}

export async function startRealtime({
  env = {},
  clock = systemClock,
  serve = () => {},
}: {
  env?: Record<string, string>
  clock?: Clock
  serve?: (session: ProviderSession) => void
} = {}): Promise<RealtimeWorld> {
  const stores = await freshStores()
  const provider = await SessionEmulator.start(serve)
  const settings = { OPENAI_API_KEY: providerSecret, OPENAI_BASE_URL: `${provider.url}/v1`, ...env }
  const gateway = await startGateway(stores, settings, clock)
  return {
    ...(await gateway.account()),
    gateway,
    provider,
    stores,
    env: settings,
    account: gateway.account,
    async close() {
      await gateway.close()
      await provider.close()
      await stores.drop()
    },
  }
}

export type Opening = {
  key?: string
  query?: string
  path?: string
  protocols?: string[]
  headers?: Record<string, string>
}

/** A client of a session. */
export class RealtimeClient {
  readonly socket: WebSocket
  readonly frames: Frame[] = []
  /** The headers of the 101. */
  headers: IncomingHttpHeaders = {}
  pings = 0
  closed: { code: number; reason: string } | null = null

  constructor(url: string, { key, query = `model=${realtimeModel}`, path = '/v1/realtime', ...rest }: Opening = {}) {
    const { protocols = [], headers } = rest
    this.socket = new WebSocket(`${url.replace('http', 'ws')}${path}?${query}`, protocols, {
      headers: { ...(key && { authorization: `Bearer ${key}` }), ...headers },
      perMessageDeflate: false,
      maxPayload: 64 * 1024 * 1024,
    })
    this.socket.on('upgrade', ({ headers }) => {
      this.headers = headers
    })
    this.socket.on('message', (data: Buffer, isBinary) => this.frames.push({ data, isBinary }))
    this.socket.on('ping', () => this.pings++)
    this.socket.on('error', () => {}) // The close says the rest.
    this.socket.on('close', (code, reason) => {
      this.closed = { code, reason: reason.toString() }
    })
  }

  /** The JSON of every frame received so far. */
  // biome-ignore lint/suspicious/noExplicitAny: events of every shape
  get events(): any[] {
    return this.frames.map(({ data }) => JSON.parse(data.toString()))
  }

  /** What it was closed with, once it is. */
  async end(): Promise<{ code: number; reason: string }> {
    await eventually(() => this.closed !== null, 'the client is closed')
    return this.closed!
  }
}

/** Opens a session; its client and the provider's end of it. */
export async function openSession(
  { gateway, provider, live }: Pick<RealtimeWorld, 'gateway' | 'provider' | 'live'>,
  opening: Opening = {},
): Promise<{ client: RealtimeClient; upstream: ProviderSession }> {
  const client = await joined(new RealtimeClient(gateway.url, { key: live, ...opening }))
  return { client, upstream: provider.last }
}

/** Waits for the 101. Rejects with the status of a refusal. */
export async function joined(client: RealtimeClient): Promise<RealtimeClient> {
  await once(client.socket, 'open')
  return client
}

/** The answer to an upgrade that is refused. */
// biome-ignore lint/suspicious/noExplicitAny: bodies of every shape
export type Refusal = { status: number; headers: IncomingHttpHeaders; body: any; text: string }

/** Asks for a session that is refused, and waits until the server has closed the connection. Throws when it is opened. */
export async function refusedSession(url: string, opening: Opening): Promise<Refusal> {
  const { socket } = new RealtimeClient(url, opening)
  const response = await Promise.race([
    once(socket, 'unexpected-response').then(([, response]) => response as IncomingMessage),
    once(socket, 'open').then(() => {
      socket.terminate()
      throw new Error('the session was opened')
    }),
  ])
  let text = ''
  for await (const part of response.setEncoding('utf8')) text += part
  socket.terminate()
  return { status: response.statusCode!, headers: response.headers, body: JSON.parse(text), text }
}

/** The head of an upgrade as it is on the wire. */
export function upgradeHead(path: string, headers: Record<string, string> = {}, method = 'GET'): string {
  const all = {
    host: 'gateway',
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': randomBytes(16).toString('base64'),
    ...headers,
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`
}

/** A connection that speaks WebSocket byte by byte. `received` is what came after the head of the 101. */
export class RawPeer {
  readonly connection: Socket
  received: Buffer = Buffer.alloc(0)
  over = false

  constructor(connection: Socket) {
    this.connection = connection
    connection.on('data', part => {
      this.received = Buffer.concat([this.received, part])
    })
    connection.on('error', () => {}) // The close says the rest.
    connection.on('end', () => connection.end())
    connection.on('close', () => {
      this.over = true
    })
  }

  /** As a client: opens a session; `behind` is sent in one packet with the request. */
  static async open(url: string, key: string, behind: Buffer = Buffer.alloc(0)): Promise<RawPeer> {
    const { hostname, port } = new URL(url)
    const peer = new RawPeer(connect({ host: hostname, port: Number(port), noDelay: true }))
    const head = upgradeHead(`/v1/realtime?model=${realtimeModel}`, { authorization: `Bearer ${key}` })
    peer.connection.write(Buffer.concat([Buffer.from(head), behind]))
    await eventually(() => peer.received.includes('\r\n\r\n'), 'the upgrade is answered')
    const answer = peer.received
    if (!answer.toString().startsWith('HTTP/1.1 101 ')) throw new Error(answer.toString())
    peer.received = answer.subarray(answer.indexOf('\r\n\r\n') + 4)
    return peer
  }

  /** As a provider: takes up an upgrade; `behind` is sent in one packet with the 101. */
  static accept(request: IncomingMessage, socket: Socket, behind: Buffer = Buffer.alloc(0)): RawPeer {
    const digest = createHash('sha1').update(
      `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`,
    )
    const head = `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: ${digest.digest('base64')}\r\n\r\n`
    socket.write(Buffer.concat([Buffer.from(head), behind]))
    return new RawPeer(socket)
  }

  /** The whole frames received so far. */
  get frames(): { opcode: number; payload: Buffer }[] {
    return framesOf(this.received)
  }

  /** The code of the close frame received; null = none came. */
  get closeCode(): number | null {
    const close = this.frames.find(({ opcode }) => opcode === opcodes.close)
    return close?.payload.length ? close.payload.readUInt16BE() : null
  }
}

export const opcodes = { more: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 }

/** A frame as it is on the wire (RFC 6455, 5.2); clients mask theirs. */
export function frameOf(opcode: number, payload: Buffer | string, { fin = true, masked = true } = {}): Buffer {
  const bytes = Buffer.from(payload)
  const long = bytes.length > 125 ? (bytes.length > 65_535 ? 8 : 2) : 0
  const head = Buffer.alloc(2 + long)
  head[0] = opcode | (fin ? 0x80 : 0)
  head[1] = (long === 0 ? bytes.length : long === 2 ? 126 : 127) | (masked ? 0x80 : 0)
  if (long === 2) head.writeUInt16BE(bytes.length, 2)
  if (long === 8) head.writeBigUInt64BE(BigInt(bytes.length), 2)
  if (!masked) return Buffer.concat([head, bytes])
  const mask = randomBytes(4)
  for (let i = 0; i < bytes.length; i++) bytes[i]! ^= mask[i & 3]!
  return Buffer.concat([head, mask, bytes])
}

function framesOf(bytes: Buffer): { opcode: number; payload: Buffer }[] {
  const frames: { opcode: number; payload: Buffer }[] = []
  let at = 0
  while (at + 2 <= bytes.length) {
    const masked = (bytes[at + 1]! & 0x80) !== 0
    const short = bytes[at + 1]! & 0x7f
    const long = short === 126 ? 2 : short === 127 ? 8 : 0
    const start = at + 2 + long + (masked ? 4 : 0)
    if (start > bytes.length) break
    const length = long === 0 ? short : long === 2 ? bytes.readUInt16BE(at + 2) : Number(bytes.readBigUInt64BE(at + 2))
    if (start + length > bytes.length) break
    const payload = Buffer.from(bytes.subarray(start, start + length))
    if (masked) for (let i = 0; i < length; i++) payload[i]! ^= bytes[start - 4 + (i & 3)]!
    frames.push({ opcode: bytes[at]! & 0x0f, payload })
    at = start + length
  }
  return frames
}

/** Waits until no session is left: no seat, no reservation, and the books are right. Gives what is wrong. */
export async function leftBehind({ gateway }: Pick<RealtimeWorld, 'gateway'>): Promise<string[]> {
  const { redis, db, wallets } = gateway.services
  await eventually(async () => (await redis.keys('realtime:*')).length === 0, 'every seat is free')
  const breaches = await gateway.settled()
  for (const { id } of await db.organisation.findMany({ select: { id: true } })) {
    const { reservedNano } = await wallets.view(id)
    if (reservedNano !== 0n) breaches.push(`${id} has ${reservedNano} nano-dollars reserved`)
  }
  return breaches
}
