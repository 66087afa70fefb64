import type { WebSocket } from 'ws'
import { eventually } from '../../support/gateway.ts'
import { directions, Flood } from '../../support/io/floods.ts'
import { leftBehind, openSession, startRealtime } from '../../support/realtime/sockets.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const mebibyte = 1024 * 1024

/** Stands still but for what the tests let pass. */
let nowMs = Date.now()
const clock = { now: () => nowMs }
const world = use(test, () => startRealtime({ clock }))

/** Lets so much time pass, and the gateway notice it. */
async function pass(ms: number, pinged: WebSocket): Promise<void> {
  let pings = 0
  pinged.on('ping', () => pings++)
  nowMs += ms
  await eventually(() => pings > 0, 'the next ping')
}

/** A session one side of which sends until nothing more is taken, as the other reads nothing. */
async function stuckSession(endsOf: (typeof directions)[number][1]) {
  const { client, upstream } = await openSession(world)
  const { from, to } = endsOf({ client: client.socket, upstream: upstream.socket })
  to.pause()
  const flood = new Flood(from, 3_200)
  const over = flood.run()
  await flood.stuck()
  const bothEnd = () => eventually(() => client.closed !== null && upstream.closed !== null, 'both sides end')
  return { client, upstream, from, to, over, bothEnd }
}

for (const [title, endsOf] of directions) {
  test.serial(`${title} that takes nothing for a minute is cut`, async t => {
    const { client, upstream, from, to, over, bothEnd } = await stuckSession(endsOf)
    await pass(26_000, from)
    await pass(26_000, from)
    t.is(client.closed, null)
    nowMs += 60_000
    await over
    to.resume()
    await bothEnd()
    t.is((from === client.socket ? client : upstream).closed!.code, 1011)
    t.deepEqual(await leftBehind(world), [])
  })

  test.serial(`${title} that takes one large frame slowly has the time it needs`, async t => {
    const { client, upstream } = await openSession(world)
    const { from, to } = endsOf({ client: client.socket, upstream: upstream.socket })
    let bytes = 0
    to.on('message', (data: Buffer) => {
      bytes += data.length
    })
    to.pause()
    from.send(Buffer.alloc(15 * mebibyte))
    await eventually(() => from.bufferedAmount === 0, 'the gateway has it')
    for (let i = 0; i < 4; i++) await pass(50_000, from)
    t.is(client.closed, null)
    to.resume()
    await eventually(() => bytes === 15 * mebibyte, 'it arrives')
    client.socket.close(1000)
    t.is((await client.end()).code, 1000)
  })

  test.serial(`${title} that reads nothing and dies ends the session for the other side`, async t => {
    const { to, over, bothEnd } = await stuckSession(endsOf)
    to.terminate()
    await over
    await bothEnd()
    t.deepEqual(await leftBehind(world), [])
  })

  test.serial(`${title} that reads nothing hears of the other side’s death once it reads`, async t => {
    const { from, to, over, bothEnd } = await stuckSession(endsOf)
    from.terminate()
    await over
    to.resume()
    await bothEnd()
    t.deepEqual(await leftBehind(world), [])
  })
}
