import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocket, WebSocketServer } from 'ws'
import { type SideClosed, SocketRelay } from '../../../shared/realtime/relay.ts'
import { monotonicAt } from '../../support/clocks/monotonic.ts'
import { eventually } from '../../support/gateway.ts'
import {
  frameOf,
  joined,
  leftBehind,
  opcodes,
  openSession,
  RawPeer,
  RealtimeClient,
  startRealtime,
} from '../../support/realtime/sockets.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

let skippedMs = 0
const clock = { now: () => Date.now() + skippedMs }
const world = use(test, () => startRealtime({ clock }))

const pingEveryMs = 25_000

function pingsOf(peer: RawPeer): number {
  return peer.frames.filter(({ opcode }) => opcode === opcodes.ping).length
}

/** Lets the time pass until every peer has had so many pings. */
async function untilPinged(count: number, ...pings: (() => number)[]): Promise<void> {
  for (let i = 1; i <= count; i++) {
    skippedMs += pingEveryMs
    await eventually(() => pings.every(pingsSoFar => pingsSoFar() >= i), `ping ${i}`)
  }
}

test.serial('a client that answers no pings is cut after two, and the provider closed', async t => {
  const raw = await RawPeer.open(world.gateway.url, world.live)
  const upstream = world.provider.last
  let pings = 0
  upstream.socket.on('ping', () => pings++)
  await untilPinged(
    2,
    () => pingsOf(raw),
    () => pings,
  )
  t.false(raw.over)
  skippedMs += pingEveryMs
  await eventually(() => raw.over && upstream.closed !== null, 'both sides end')
  t.is(upstream.closed!.code, 1011)
  t.deepEqual(await leftBehind(world), [])
})

test.serial('a provider that answers no pings is cut after two, and the client told', async t => {
  let provider: RawPeer | undefined
  world.provider.next((request, socket) => {
    provider = RawPeer.accept(request, socket)
  })
  const client = await joined(new RealtimeClient(world.gateway.url, { key: world.live }))
  await untilPinged(
    2,
    () => pingsOf(provider!),
    () => client.pings,
  )
  t.is(client.closed, null)
  skippedMs += pingEveryMs
  t.is((await client.end()).code, 1011)
  t.is(client.events.at(-1).error.code, 'upstream_error')
  await eventually(() => provider!.over, 'the provider is cut')
  t.deepEqual(await leftBehind(world), [])
})

test.serial('a client that is still sending one large frame is not taken for gone', async t => {
  const raw = await RawPeer.open(world.gateway.url, world.live)
  const upstream = world.provider.last
  const wire = frameOf(opcodes.binary, Buffer.alloc(8_000, 'x'))
  for (let i = 0; i < 4; i++) {
    raw.connection.write(wire.subarray(i * 2_000, (i + 1) * 2_000))
    skippedMs += pingEveryMs
    await eventually(() => pingsOf(raw) > i, `ping ${i}`)
  }
  t.false(raw.over)
  raw.connection.write(wire.subarray(8_000))
  await eventually(() => upstream.frames.length === 1, 'it arrives whole')
  raw.connection.destroy()
  await eventually(() => upstream.closed !== null, 'the provider is closed')
})

test.serial('both sides are pinged every 25 seconds, and silence with pongs is no end', async t => {
  const { client, upstream } = await openSession(world)
  let pings = 0
  upstream.socket.on('ping', () => pings++)
  await untilPinged(
    4,
    () => client.pings,
    () => pings,
  )
  t.is(client.closed, null)
  client.socket.close(1000)
  await client.end()
})

/** Two ends of one WebSocket. */
async function pair(): Promise<{ ours: WebSocket; theirs: WebSocket; close(): void }> {
  const server = http.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sockets = new WebSocketServer({ server })
  const theirs = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const [[ours]] = await Promise.all([once(sockets, 'connection'), once(theirs, 'open')])
  return { ours, theirs, close: () => void server.close() }
}

test('an hour of silence with pongs keeps a session', async t => {
  const [client, upstream] = await Promise.all([pair(), pair()])
  const closed: SideClosed[] = []
  const events = {
    fromClient: (frame: Buffer) => frame,
    fromUpstream: () => {},
    closed: (side: SideClosed) => void closed.push(side),
  }
  const relay = new SocketRelay(client.ours, upstream.ours, events, { now: () => monotonicAt(0) })
  let pings = 0
  client.theirs.on('ping', () => pings++)
  upstream.theirs.on('ping', () => pings++)
  for (let second = 1; second <= 3_600; second++) {
    relay.checkLiveness(monotonicAt(second * 1_000))
    if (second % 25 > 0) continue
    // The pong must have come before the next ping is due.
    await Promise.all([once(client.ours, 'pong'), once(upstream.ours, 'pong')])
  }
  t.is(pings, 2 * 144)
  t.deepEqual(closed, [])
  relay.terminate()
  await eventually(() => relay.isClosed, 'both are closed')
  for (const { close } of [client, upstream]) close()
})
