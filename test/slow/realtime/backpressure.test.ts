import { readFileSync } from 'node:fs'
import type { WebSocket } from 'ws'
import { eventually, type Process, startProcess } from '../../support/gateway.ts'
import { countFrames, directions, Flood } from '../../support/io/floods.ts'
import { leftBehind, openSession, startRealtime } from '../../support/realtime/sockets.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const mebibyte = 1024 * 1024
/** What the kernel may hold on its two connections, and what waits in the gateway, by far. */
const maxUnderWayBytes = 40 * mebibyte
const maxGrowthBytes = 96 * mebibyte
const world = use(test, () => startRealtime({ serve: ({ frames }) => void (frames.length = 0) }))
const web = use(test, () => startProcess('web', world.stores, world.env))

function residentBytes({ child }: Process): number {
  const [, kilobytes] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))!
  return Number(kilobytes) * 1024
}

for (const [title, endsOf] of directions) {
  test.serial(
    `${title} that reads nothing of 200 MB does not grow the gateway’s memory, and gets it all later`,
    async t => {
      const { client, upstream } = await openSession({ ...world, gateway: { ...world.gateway, url: web.url } })
      const { from, to } = endsOf({ client: client.socket, upstream: upstream.socket })
      const seen = countFrames(to)
      to.pause()
      const idleBytes = residentBytes(web)
      const flood = new Flood(from, 3_200)
      const over = flood.run()
      await flood.stuck()
      t.true(flood.sentBytes < maxUnderWayBytes, `${flood.sentBytes} bytes were taken`)
      t.true(residentBytes(web) - idleBytes < maxGrowthBytes, `grown by ${residentBytes(web) - idleBytes} bytes`)
      to.resume()
      await over
      await eventually(() => seen.frames === 3_200, 'all of it arrives in order')
      t.true(residentBytes(web) - idleBytes < 2 * maxGrowthBytes, `grown by ${residentBytes(web) - idleBytes} bytes`)
      client.socket.close(1000)
      t.is((await client.end()).code, 1000)
    },
  )
}

test.serial('20 clients that read nothing at once do not grow the gateway’s memory either', async t => {
  const sessions: { client: WebSocket; flood: Flood; over: Promise<void>; seen: { frames: number | null } }[] = []
  const { live } = await world.account()
  const idleBytes = residentBytes(web)
  for (let i = 0; i < 20; i++) {
    const { client, upstream } = await openSession({ ...world, live, gateway: { ...world.gateway, url: web.url } })
    const seen = countFrames(client.socket)
    client.socket.pause()
    const flood = new Flood(upstream.socket, 240)
    sessions.push({ client: client.socket, flood, over: flood.run(), seen })
  }
  await Promise.all(sessions.map(({ flood }) => flood.stuck()))
  const grownBytes = residentBytes(web) - idleBytes
  t.true(grownBytes < 2 * maxGrowthBytes, `grown by ${grownBytes} bytes`)
  for (const { client } of sessions) client.resume()
  await Promise.all(sessions.map(({ over }) => over))
  await eventually(() => sessions.every(({ seen }) => seen.frames === 240), 'all of it arrives in order')
  for (const { client } of sessions) client.close()
  t.deepEqual(await leftBehind(world), [])
})
