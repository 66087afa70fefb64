import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import type { Frame } from '../emulators/sessions.ts'
import { eventually } from '../support/gateway.ts'
import {
  frameOf,
  joined,
  leftBehind,
  opcodes,
  openSession,
  providerSecret,
  RawPeer,
  RealtimeClient,
  realtimeModel,
  refusedSession,
  startRealtime,
} from '../support/realtime/sockets.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const maxBytes = 16 * 1024 * 1024
const world = use(test, startRealtime)

function same(a: readonly Frame[], b: readonly Frame[]): boolean {
  return (
    a.length === b.length && a.every(({ data, isBinary }, i) => isBinary === b[i]!.isBinary && data.equals(b[i]!.data))
  )
}

const bytes = fc
  .oneof(
    fc.integer({ min: 0, max: 300 }),
    fc.constantFrom(125, 126, 127, 65_535, 65_536),
    fc.integer({ min: 0, max: 300_000 }),
  )
  .map(size => randomBytes(size))
const text = fc.tuple(fc.string({ unit: 'binary', maxLength: 40 }), fc.integer({ min: 0, max: 2_000 }))
const frame: fc.Arbitrary<Frame> = fc.oneof(
  bytes.map(data => ({ data, isBinary: true })),
  text.map(([unit, times]) => ({ data: Buffer.from(unit.repeat(times)), isBinary: false })),
)
const frames = fc.array(frame, { maxLength: 25 })

test.serial('frames of every size and kind arrive unchanged and in order, both ways at once', async t => {
  const { client, upstream } = await openSession(world)
  await fc.assert(
    fc.asyncProperty(frames, frames, async (up, down) => {
      client.frames.length = upstream.frames.length = 0
      for (const { data, isBinary } of up) client.socket.send(data, { binary: isBinary })
      for (const { data, isBinary } of down) upstream.socket.send(data, { binary: isBinary })
      await eventually(() => upstream.frames.length >= up.length && client.frames.length >= down.length, 'all arrived')
      return same(up, upstream.frames) && same(down, client.frames)
    }),
    { numRuns: 40 },
  )
  client.socket.close(1000)
  t.is((await client.end()).code, 1000)
})

test.serial('frames of up to 16 MiB arrive unchanged both ways', async t => {
  const { client, upstream } = await openSession(world)
  const sizes = [maxBytes - 1, 0, maxBytes, 1]
  const up = sizes.map(size => ({ data: randomBytes(size), isBinary: true }))
  const down = sizes.map(size => ({ data: Buffer.alloc(size, 'a'), isBinary: false }))
  for (const { data } of up) client.socket.send(data, { binary: true })
  for (const { data } of down) upstream.socket.send(data, { binary: false })
  await eventually(() => upstream.frames.length === 4 && client.frames.length === 4, 'all arrived')
  t.true(same(up, upstream.frames))
  t.true(same(down, client.frames))
  client.socket.close(1000)
  await client.end()
})

/** How a message is cut into frames, and which pings come in between; and where the packets are cut. */
const cuts = fc.array(fc.nat(), { maxLength: 6 })
const pieces = fc.record({
  messages: fc.array(fc.tuple(frame, cuts, fc.array(fc.string({ maxLength: 20 }), { maxLength: 6 })), { maxLength: 8 }),
  packets: fc.array(fc.integer({ min: 1, max: 2_000 }), { minLength: 1, maxLength: 20 }),
})
type Pieces = typeof pieces extends fc.Arbitrary<infer T> ? T : never

function wireOf({ messages }: Pieces, masked: boolean): Buffer {
  const parts: Buffer[] = []
  for (const [{ data, isBinary }, cuts, pings] of messages) {
    const ends = [...cuts.map(cut => cut % (data.length + 1)).sort((a, b) => a - b), data.length]
    let from = 0
    ends.forEach((end, i) => {
      const opcode = i > 0 ? opcodes.more : isBinary ? opcodes.binary : opcodes.text
      parts.push(frameOf(opcode, data.subarray(from, end), { fin: i === ends.length - 1, masked }))
      if (pings[i] !== undefined) parts.push(frameOf(opcodes.ping, pings[i].slice(0, 10), { masked }))
      from = end
    })
  }
  return Buffer.concat(parts)
}

/** Sends bytes in packets of these sizes, in turn; large ones at the end, so that it does not take for ever. */
async function sendCut({ connection }: RawPeer, wire: Buffer, packets: readonly number[]): Promise<void> {
  for (let at = 0, i = 0; at < wire.length; i++) {
    const size = i < 200 ? packets[i % packets.length]! : 65_536
    connection.write(wire.subarray(at, at + size))
    at += size
    await turn()
  }
}

test.serial('messages in many fragments and packets cut anywhere arrive unchanged, their pings answered', async t => {
  const rawClient = await RawPeer.open(world.gateway.url, world.live)
  const upstream = world.provider.last
  const accepted: RawPeer[] = []
  world.provider.next((request, socket) => void accepted.push(RawPeer.accept(request, socket)))
  const client = await joined(new RealtimeClient(world.gateway.url, { key: world.live }))
  const [rawProvider] = accepted
  await fc.assert(
    fc.asyncProperty(pieces, async cut => {
      upstream.frames.length = client.frames.length = 0
      rawClient.received = Buffer.alloc(0)
      const sent = cut.messages.map(([frame]) => frame)
      const pings = cut.messages.flatMap(([, cuts, pings]) => pings.slice(0, cuts.length + 1))
      await Promise.all([
        sendCut(rawClient, wireOf(cut, true), cut.packets),
        sendCut(rawProvider!, wireOf(cut, false), cut.packets),
      ])
      const pongs = () => rawClient.frames.filter(({ opcode }) => opcode === opcodes.pong)
      await eventually(
        () => upstream.frames.length + client.frames.length >= 2 * sent.length && pongs().length >= pings.length,
        'all arrived',
      )
      return (
        same(sent, upstream.frames) &&
        same(sent, client.frames) &&
        pongs().every(({ payload }, i) => payload.equals(Buffer.from(pings[i]!.slice(0, 10))))
      )
    }),
    { numRuns: 25 },
  )
  rawClient.connection.destroy()
  rawProvider!.connection.destroy()
  t.is((await client.end()).code, 1011)
})

test.serial('text of every kind of UTF-8 passes; text cut inside a character is whole again', async t => {
  const { client, upstream } = await openSession(world)
  const texts = [
    '',
    'ascii',
    'Grüße',
    '漢字',
    '👩🏽‍🚀',
    '\u0000\uFFFF\uFEFF',
    '\u{10FFFF}',
    '{"a":1.0,"b":12345678901234567890}',
  ]
  for (const text of texts) client.socket.send(text)
  for (const text of texts) upstream.socket.send(text)
  await eventually(() => upstream.frames.length + client.frames.length === 2 * texts.length, 'all arrived')
  t.deepEqual(
    upstream.frames.map(({ data }) => data.toString()),
    texts,
  )
  t.deepEqual(
    client.frames.map(({ data }) => data.toString()),
    texts,
  )
  const raw = await RawPeer.open(world.gateway.url, world.live)
  const smile = Buffer.from('😀')
  raw.connection.write(frameOf(opcodes.text, smile.subarray(0, 2), { fin: false }))
  raw.connection.write(frameOf(opcodes.more, smile.subarray(2)))
  await eventually(() => world.provider.last.frames.length === 1, 'it arrived')
  t.is(world.provider.last.frames[0]!.data.toString(), '😀')
  raw.connection.destroy()
  client.socket.terminate()
})

test.serial('frames right behind the upgrade and right behind the 101 are not lost', async t => {
  const early = Array.from({ length: 300 }, (_, i) => `{"early":${i},"padding":"${'x'.repeat(500)}"}`)
  const down = Buffer.concat(early.map(text => frameOf(opcodes.text, text, { masked: false })))
  const up = Buffer.concat(early.map(text => frameOf(opcodes.text, text)))
  const accepted: RawPeer[] = []
  world.provider.next((request, socket) => void accepted.push(RawPeer.accept(request, socket, down)))
  const raw = await RawPeer.open(world.gateway.url, world.live, up)
  await eventually(() => raw.frames.length >= 300 && accepted[0]!.frames.length >= 300, 'all arrived')
  t.deepEqual(
    raw.frames.map(({ payload }) => payload.toString()),
    early,
  )
  t.deepEqual(
    accepted[0]!.frames.map(({ payload }) => payload.toString()),
    early,
  )
  raw.connection.destroy()
  await eventually(() => accepted[0]!.over || accepted[0]!.closeCode !== null, 'the provider is told')
  accepted[0]!.connection.destroy()
})

test.serial('101 tells what it opened, and neither side learns the other’s secrets', async t => {
  const { client, upstream } = await openSession(world, {
    query: `model=openai/${realtimeModel}&intent=transcription`,
    protocols: ['realtime', `openai-insecure-api-key.${world.live}`],
    headers: {
      cookie: 'a=b',
      origin: 'https://page.example',
      'x-request-id': 'req-of-mine',
      'openai-beta': 'realtime=v1',
    },
    key: '',
  })
  const { headers } = client
  t.is(client.socket.protocol, 'realtime')
  t.is(headers['x-request-id'], 'req-of-mine')
  t.regex(String(headers['x-generation-id']), /^rt_/)
  t.is(headers['x-gateway-model'], realtimeModel)
  t.is(headers['x-gateway-provider'], 'openai')
  t.is(headers['x-gateway-attempts'], '1')
  t.is(headers['access-control-allow-origin'], '*')
  t.is(headers['x-sandbox'], undefined)
  t.false(JSON.stringify(headers).includes(providerSecret))
  t.false(JSON.stringify(headers).includes(world.live))

  t.is(upstream.path, '/v1/realtime')
  t.deepEqual([...upstream.query], [['intent', 'transcription']])
  t.deepEqual(Object.keys(upstream.headers).sort(), [
    'authorization',
    'connection',
    'host',
    'sec-websocket-key',
    'sec-websocket-version',
    'upgrade',
  ])
  t.is(upstream.headers.authorization, `Bearer ${providerSecret}`)
  client.socket.close()
  await client.end()
})

test.serial('101 for a key with limits has their headers; a test key’s says sandbox', async t => {
  const key = await world.gateway.key(world.organisationId, 'live', { rpm_limit: 7, tpm_limit: 900_000 })
  const limited = await joined(new RealtimeClient(world.gateway.url, { key }))
  t.is(limited.headers['x-ratelimit-limit-requests'], '7')
  t.is(limited.headers['x-ratelimit-remaining-requests'], '6')
  t.is(limited.headers['x-ratelimit-limit-tokens'], '900000')
  t.is(limited.socket.protocol, '')
  const opened = world.provider.sessions.length
  const sandboxed = await joined(new RealtimeClient(world.gateway.url, { key: world.test }))
  t.is(sandboxed.headers['x-sandbox'], 'true')
  await eventually(() => sandboxed.frames.length > 0, 'the sandbox begins')
  t.is(sandboxed.events[0].type, 'session.created')
  t.is(world.provider.sessions.length, opened)
  for (const { socket } of [limited, sandboxed]) {
    socket.close()
    await once(socket, 'close')
  }
})

test.serial('400 for a parameter that is not known', async t => {
  const { status, body } = await refusedSession(world.gateway.url, {
    key: world.live,
    query: `model=${realtimeModel}&call_id=rtc_1`,
  })
  t.is(status, 400)
  t.is(body.error.code, 'unknown_field')
  t.is(body.error.param, 'call_id')
})

test.serial('ok: no session slot and no reservation remains after all of these', async t => {
  t.deepEqual(await leftBehind(world), [])
})
