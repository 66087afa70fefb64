import { connect } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { eventually } from '../support/gateway.ts'
import { frameOf, opcodes, RawPeer, realtimeModel, upgradeHead } from '../support/realtime/sockets.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const sockets = ['/v1/responses', `/v1/realtime?model=${realtimeModel}`]
const mib = 1024 * 1024

const gateway = useGateway(test, { OPENAI_API_KEY: 'sk-upstream' })
const account = use(test, () => gateway.account())

async function open(path: string): Promise<RawPeer> {
  const { hostname, port } = new URL(gateway.url)
  const peer = new RawPeer(connect({ host: hostname, port: Number(port), noDelay: true }))
  peer.connection.write(upgradeHead(path, { authorization: `Bearer ${account.test}` }))
  await eventually(() => peer.received.includes('\r\n\r\n'), 'the upgrade is answered')
  peer.received = peer.received.subarray(peer.received.indexOf('\r\n\r\n') + 4)
  return peer
}

const isClosing = (peer: RawPeer) => peer.closeCode !== null || peer.over
const bytesHeld = () => gateway.services.budgets.bodies.bytes

for (const path of sockets) {
  test.serial(`1008 for a message whose bytes come one by one: ${path}`, async t => {
    const peer = await open(path)
    peer.connection.write(frameOf(opcodes.text, Buffer.alloc(mib, 'x')).subarray(0, 14))
    let sent = 0
    for (; sent < 100_000 && !isClosing(peer); sent++) {
      peer.connection.write('x')
      await setImmediate()
    }
    t.true(sent < 100_000, 'it is closed long before the message is complete')
    await eventually(() => peer.closeCode !== null, 'it is closed')
    t.is(peer.closeCode, 1008)
    peer.connection.destroy()
    await eventually(() => bytesHeld() === 0, 'nothing is held')
  })

  test.serial(`1008 for more fragments than a message may have: ${path}`, async t => {
    const peer = await open(path)
    const first = frameOf(opcodes.text, ' ', { fin: false })
    const more = Array.from({ length: 5_000 }, () => frameOf(opcodes.more, ' ', { fin: false }))
    peer.connection.write(Buffer.concat([first, ...more]))
    await eventually(() => peer.closeCode !== null, 'it is closed')
    t.is(peer.closeCode, 1008)
    peer.connection.destroy()
  })

  test.serial(`1008 for a flood of invalid frames: ${path}`, async t => {
    for (const frame of [frameOf(opcodes.binary, 'xx'), frameOf(opcodes.text, 'x'), frameOf(opcodes.text, '')]) {
      const peer = await open(path)
      peer.connection.write(Buffer.concat(Array.from({ length: 2_000 }, () => frame)))
      await eventually(() => peer.closeCode !== null, 'it is closed')
      t.is(peer.closeCode, 1008)
      const errors = peer.frames.filter(({ payload }) => payload.includes('error'))
      t.true(errors.length > 0 && errors.length < 200, `${errors.length} errors`)
      peer.connection.destroy()
    }
  })

  test.serial(`thousands of pings alone end no connection, and hold little: ${path}`, async t => {
    const peer = await open(path)
    const pongBytes = 3
    for (let sent = 0; sent < 5_000 && !peer.over; sent++) {
      peer.connection.write(frameOf(opcodes.ping, 'x'))
      await setImmediate()
    }
    await eventually(() => peer.over || peer.received.length >= 5_000 * pongBytes, 'each is answered')
    t.is(peer.closeCode, null)
    t.true(bytesHeld() < 10_000, `${bytesHeld()} bytes are held`)
    peer.connection.destroy()
  })

  test.serial(`a message in small pieces arrives whole: ${path}`, async t => {
    const peer = await open(path)
    const invalid = JSON.stringify({ type: 'nothing', text: 'x'.repeat(1_000) })
    for (const byte of frameOf(opcodes.text, invalid)) {
      peer.connection.write(Buffer.from([byte]))
      await setImmediate()
    }
    await eventually(() => peer.frames.some(({ payload }) => payload.includes('"error"')), 'it is answered')
    t.is(peer.closeCode, null)
    peer.connection.destroy()
  })

  test.serial(`a flood of frames leaves time for others: ${path}`, async t => {
    const peer = await open(path)
    const flood = Array.from({ length: 4_000 }, () => frameOf(opcodes.pong, ''))
    const last = frameOf(opcodes.ping, 'last')
    peer.connection.write(Buffer.concat([...flood, last]))
    let turns = 0
    for (; !peer.frames.some(({ payload }) => payload.toString() === 'last'); turns++) await setImmediate()
    t.true(turns >= 1_000, `${turns} turns of the event loop`)
    peer.connection.destroy()
  })
}
