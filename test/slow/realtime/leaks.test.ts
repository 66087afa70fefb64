import { refuse } from '../../emulators/sessions.ts'
import { eventually } from '../../support/gateway.ts'
import {
  leftBehind,
  RawPeer,
  RealtimeClient,
  type RealtimeWorld,
  startRealtime,
} from '../../support/realtime/sockets.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const world = use(test, () =>
  startRealtime({
    env: { REALTIME_MAX_SESSIONS: '1000', UPSTREAM_MAX_PAUSE_MS: '1' },
    serve: session => session.send({ type: 'session.created' }),
  }),
)

/** Every kind of end that a session can have. */
const lives: ((world: RealtimeWorld, key: string, live: string) => Promise<void>)[] = [
  async ({ gateway }, key) => {
    const { client } = await begun(gateway.url, key)
    client.socket.close(1000)
    await client.end()
  },
  async ({ gateway }, key) => {
    const { client } = await begun(gateway.url, key)
    client.socket.terminate()
    await client.end()
  },
  async ({ gateway, provider }, _key, live) => {
    const { client } = await begun(gateway.url, live)
    for (const { socket } of provider.sessions.splice(0)) socket.close(4000, 'enough')
    await client.end()
  },
  async ({ gateway, provider }, _key, live) => {
    const { client } = await begun(gateway.url, live)
    for (const { connection } of provider.sessions.splice(0)) connection.resetAndDestroy()
    await client.end()
  },
  async ({ gateway, provider }, _key, live) => {
    // A session begun at the same time may be the one that is refused; this one then ends as usual.
    provider.next(refuse(400))
    const { client } = await begun(gateway.url, live)
    client.socket.close(1000)
    await client.end()
  },
  async ({ gateway }, key) => {
    await new RealtimeClient(gateway.url, { key, query: 'model=none' }).end()
    await new RealtimeClient(gateway.url, {}).end()
  },
  async ({ gateway }, key) => {
    const raw = await RawPeer.open(gateway.url, key)
    raw.connection.end('no frame at all')
    await eventually(() => raw.over, 'it is closed')
  },
  async ({ gateway }, key) => {
    const client = new RealtimeClient(gateway.url, { key })
    client.socket.once('upgrade', () => client.socket.terminate())
    await client.end()
  },
]

async function begun(url: string, key: string): Promise<{ client: RealtimeClient }> {
  const client = new RealtimeClient(url, { key })
  await eventually(() => client.frames.length > 0 || client.closed !== null, 'it begins')
  return { client }
}

/** What keeps the process busy, by kind. */
function resources(): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const kind of process.getActiveResourcesInfo()) counts[kind] = (counts[kind] ?? 0) + 1
  return counts
}

const kinds = ['TCPSocketWrap', 'TCPServerWrap', 'PipeWrap']

test('nothing is left of 500 sessions that ended in every way: no socket, timer, listener, seat or reservation', async t => {
  const { live, test: sandbox } = await world.account()
  // What is made once, such as connections to the stores, is made by the first ones.
  await Promise.all(lives.map((end, i) => end(world, i % 2 ? live : sandbox, live)))
  t.deepEqual(await leftBehind(world), [])
  const before = resources()
  const listeners = process.listenerCount('SIGTERM')

  const rounds = Array.from({ length: 504 }, (_, i) => i)
  await Promise.all(
    Array.from({ length: 12 }, async () => {
      for (let i = rounds.shift(); i !== undefined; i = rounds.shift())
        await lives[i % lives.length]!(world, i % 3 ? live : sandbox, live)
    }),
  )
  t.deepEqual(await leftBehind(world), [])
  for (const kind of kinds)
    await eventually(() => (resources()[kind] ?? 0) <= (before[kind] ?? 0), `${kind} is back to ${before[kind] ?? 0}`)
  t.true((resources().Timeout ?? 0) <= (before.Timeout ?? 0) + 5, JSON.stringify([before, resources()]))
  t.is(process.listenerCount('SIGTERM'), listeners)
})
