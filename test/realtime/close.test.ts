import { eventually } from '../support/gateway.ts'
import {
  frameOf,
  joined,
  leftBehind,
  opcodes,
  openSession,
  RawPeer,
  RealtimeClient,
  startRealtime,
} from '../support/realtime/sockets.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, startRealtime)

const passed = [1000, 1001, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4401, 4999]

function closeOf(code: number, reason: Buffer | string = '', masked = true): Buffer {
  const payload = Buffer.concat([Buffer.alloc(2), Buffer.from(reason)])
  payload.writeUInt16BE(code)
  return frameOf(opcodes.close, payload, { masked })
}

/** Opens a session with a provider that speaks byte by byte. */
async function openRaw(): Promise<{ client: RealtimeClient; provider: RawPeer }> {
  let provider: RawPeer | undefined
  world.provider.next((request, socket) => {
    provider = RawPeer.accept(request, socket)
  })
  const client = await joined(new RealtimeClient(world.gateway.url, { key: world.live }))
  return { client, provider: provider! }
}

test.serial('close codes and reasons pass from the client to the provider', async t => {
  for (const code of passed) {
    const { client, upstream } = await openSession(world)
    client.socket.close(code, `because ${code}`)
    await eventually(() => upstream.closed !== null, 'the provider is closed')
    t.deepEqual(upstream.closed, { code, reason: `because ${code}` })
    t.deepEqual(await client.end(), { code, reason: `because ${code}` })
  }
})

test.serial('close codes and reasons pass from the provider to the client, without an event of ours', async t => {
  for (const code of passed) {
    const { client, upstream } = await openSession(world)
    upstream.send({ type: 'last' })
    upstream.socket.close(code, `because ${code}`)
    t.deepEqual(await client.end(), { code, reason: `because ${code}` })
    t.deepEqual(client.events, [{ type: 'last' }])
  }
})

test.serial('a close without a code passes as one, both ways', async t => {
  const first = await openSession(world)
  first.client.socket.close()
  await eventually(() => first.upstream.closed !== null, 'the provider is closed')
  t.is(first.upstream.closed!.code, 1005)
  const second = await openSession(world)
  second.upstream.socket.close()
  t.is((await second.client.end()).code, 1005)
})

test.serial('1002 of the provider, which says something of its own peer, reaches the client as 1011', async t => {
  const { client, provider } = await openRaw()
  provider.connection.end(closeOf(1002, 'you broke it', false))
  t.deepEqual(await client.end(), { code: 1011, reason: 'you broke it' })
  t.is(provider.closeCode, 1002)
})

test.serial('reasons of 123 bytes pass, also of several bytes a character', async t => {
  const reasons = ['x'.repeat(123), 'ü'.repeat(61), '漢'.repeat(41), `${'😀'.repeat(30)}xyz`]
  for (const reason of reasons) {
    const { client, upstream } = await openSession(world)
    upstream.socket.close(4000, reason)
    t.deepEqual(await client.end(), { code: 4000, reason })
  }
})

test.serial('a broken connection of the provider is an error event and 1011, one of the client’s 1011', async t => {
  const first = await openSession(world)
  first.upstream.connection.resetAndDestroy()
  t.is((await first.client.end()).code, 1011)
  t.deepEqual(
    first.client.events.map(({ type, error }) => [type, error.code]),
    [['error', 'upstream_error']],
  )
  const second = await openSession(world)
  second.upstream.connection.end()
  t.is((await second.client.end()).code, 1011)
  const third = await openSession(world)
  third.client.socket.terminate()
  await eventually(() => third.upstream.closed !== null, 'the provider is closed')
  t.is(third.upstream.closed!.code, 1011)
})

const tooLarge = Buffer.alloc(16 * 1024 * 1024 + 1, 'a')
/** What breaks the protocol, with the code that its sender is closed with. */
const faults: [title: string, wire: (masked: boolean) => Buffer, code: number, passed: number][] = [
  ['a frame of 16 MiB + 1', masked => frameOf(opcodes.binary, tooLarge, { masked }), 1009, 1009],
  [
    'fragments of more than 16 MiB together',
    masked =>
      Buffer.concat([
        frameOf(opcodes.text, tooLarge.subarray(2), { fin: false, masked }),
        frameOf(opcodes.more, 'abc', { masked }),
      ]),
    1009,
    1009,
  ],
  ['a length beyond 2^53', masked => Buffer.from([0x82, masked ? 0xff : 0x7f, 0xff, 0, 0, 0, 0, 0, 0, 0]), 1009, 1009],
  ['text that is no UTF-8', masked => frameOf(opcodes.text, Buffer.from([0xc3, 0x28]), { masked }), 1007, 1007],
  ['a reason that is no UTF-8', masked => closeOf(1000, Buffer.from([0xff]), masked), 1007, 1007],
  ['a frame masked the wrong way', masked => frameOf(opcodes.text, 'hello', { masked: !masked }), 1002, 1011],
  ['reserved bits', masked => frameOf(opcodes.text | 0x40, 'hello', { masked }), 1002, 1011],
  ['an unknown opcode', masked => frameOf(3, 'hello', { masked }), 1002, 1011],
  ['a continuation of nothing', masked => frameOf(opcodes.more, 'hello', { masked }), 1002, 1011],
  ['a ping of 126 bytes', masked => frameOf(opcodes.ping, 'x'.repeat(126), { masked }), 1002, 1011],
  ['a close code that must not be sent', masked => closeOf(1005, '', masked), 1002, 1011],
  ['a close frame of one byte', masked => frameOf(opcodes.close, 'x', { masked }), 1002, 1011],
]
for (const [title, wire, code, passed] of faults) {
  test.serial(`${code} for a client that sends ${title}; the provider is told`, async t => {
    const raw = await RawPeer.open(world.gateway.url, world.live)
    const upstream = world.provider.last
    raw.connection.write(frameOf(opcodes.text, 'before'))
    raw.connection.write(wire(true))
    await eventually(() => raw.closeCode !== null, 'it is closed')
    t.is(raw.closeCode, code)
    raw.connection.end()
    await eventually(() => upstream.closed !== null, 'the provider is closed')
    t.is(upstream.closed!.code, passed)
    t.deepEqual(
      upstream.frames.map(({ data }) => data.toString()),
      ['before'],
    )
  })

  test.serial(`${code} for a provider that sends ${title}; the client gets an error event`, async t => {
    const { client, provider } = await openRaw()
    provider.connection.write(frameOf(opcodes.text, '{"type":"before"}', { masked: false }))
    provider.connection.write(wire(false))
    await eventually(() => provider.closeCode !== null, 'it is closed')
    t.is(provider.closeCode, code)
    provider.connection.end()
    t.is((await client.end()).code, passed)
    t.deepEqual(
      client.events.map(({ type, error }) => [type, error?.code]),
      [
        ['before', undefined],
        ['error', 'upstream_error'],
      ],
    )
  })
}

test.serial('a frame in too many fragments is closed with 1008', async t => {
  const raw = await RawPeer.open(world.gateway.url, world.live)
  const upstream = world.provider.last
  const fragments = Array.from({ length: 17_000 }, (_, i) =>
    frameOf(i === 0 ? opcodes.text : opcodes.more, 'x', { fin: false }),
  )
  raw.connection.write(Buffer.concat(fragments))
  await eventually(() => raw.closeCode !== null, 'it is closed')
  t.is(raw.closeCode, 1008)
  raw.connection.end()
  await eventually(() => upstream.closed !== null, 'the provider is closed')
  t.is(upstream.closed!.code, 1008)
})

test.serial('ok: no session slot and no reservation remains after all of these', async t => {
  t.deepEqual(await leftBehind(world), [])
})
