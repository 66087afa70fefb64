import { once } from 'node:events'
import type { Socket } from 'node:net'
import { eventually, startProcess } from '../../support/gateway.ts'
import {
  joined,
  leftBehind,
  openSession,
  RawPeer,
  RealtimeClient,
  realtimeModel,
  refusedSession,
  startRealtime,
} from '../../support/realtime/sockets.ts'
import { test } from '../../support/test.ts'

test('a session that ends by itself while the gateway drains is let go, and new ones are refused', async t => {
  const world = await startRealtime()
  t.teardown(world.close)
  const { client, upstream } = await openSession(world)
  const drained = world.gateway.door.drain(60_000)
  await eventually(() => client.frames.length > 0, 'it is told')
  t.is(client.events[0].type, 'error')
  t.is(client.events[0].error.code, 'service_unavailable')
  const refusal = await refusedSession(world.gateway.url, { key: world.live })
  t.is(refusal.status, 503)
  t.is(refusal.body.error.code, 'service_unavailable')
  t.is(refusal.headers['retry-after'], '1')

  client.socket.send('still here')
  upstream.send({ type: 'still here' })
  await eventually(() => client.frames.length === 2 && upstream.frames.length === 1, 'it goes on')
  client.socket.close(1000)
  await drained
  t.deepEqual(await client.end(), { code: 1000, reason: '' })
  t.deepEqual(await leftBehind(world), [])
})

test('a session that does not end is closed with 1013 after the grace', async t => {
  const world = await startRealtime()
  t.teardown(world.close)
  const sessions = [await openSession(world), await openSession(world)]
  await world.gateway.door.drain(300)
  for (const { client, upstream } of sessions) {
    t.deepEqual(await client.end(), { code: 1013, reason: 'service_unavailable' })
    await eventually(() => upstream.closed !== null, 'the provider is closed')
    t.is(upstream.closed!.code, 1000)
  }
  t.deepEqual(await leftBehind(world), [])
})

test('a session that is only being opened while the gateway drains does not hold it up', async t => {
  const world = await startRealtime()
  t.teardown(world.close)
  const asked: Socket[] = []
  let answer: (() => RawPeer) | undefined
  world.provider.next((_request, socket) => void asked.push(socket.resume()))
  world.provider.next((request, socket) => {
    answer = () => RawPeer.accept(request, socket)
  })
  const hanging = new RealtimeClient(world.gateway.url, { key: world.live })
  await eventually(() => asked.length === 1, 'the provider is asked')
  const opening = refusedSession(world.gateway.url, { key: world.live })
  await eventually(() => answer !== undefined, 'the provider is asked again')
  const drained = world.gateway.door.drain(500)
  const late = answer!()
  t.is((await opening).status, 503)
  await eventually(() => late.over, 'the late provider is left')
  await drained
  t.is((await hanging.end()).code, 1006)
  await eventually(() => asked[0]!.readableEnded, 'the provider is left')
  asked[0]!.destroy()
  t.deepEqual(await leftBehind(world), [])
})

test('a process told to stop waits 18 seconds for its sessions, then ends with 0, settled', async t => {
  const world = await startRealtime({ serve: session => session.send({ type: 'session.created' }) })
  const web = await startProcess('web', world.stores, world.env)
  t.teardown(async () => {
    await web.kill()
    await world.close()
  })
  const open = () => joined(new RealtimeClient(web.url, { key: world.live, query: `model=${realtimeModel}` }))
  const staying = await open()
  const leaving = await open()
  const exited = once(web.child, 'exit')
  web.child.kill('SIGTERM')
  await eventually(() => staying.frames.length === 2 && leaving.frames.length === 2, 'both are told')
  // A platform tells every process, and so does the one that supervises them.
  web.child.kill('SIGTERM')
  leaving.socket.close(1000)
  t.is((await leaving.end()).code, 1000)
  t.is(staying.closed, null)
  await t.throwsAsync(refusedSession(web.url, { key: world.live }))
  t.deepEqual(await staying.end(), { code: 1013, reason: 'service_unavailable' })
  t.deepEqual(await exited, [0, null])
  t.deepEqual(await leftBehind(world), [])
})

test('a process whose sessions all end stops at once', async t => {
  const world = await startRealtime()
  const web = await startProcess('web', world.stores, world.env)
  t.teardown(async () => {
    await web.kill()
    await world.close()
  })
  const client = await joined(new RealtimeClient(web.url, { key: world.live }))
  const exited = once(web.child, 'exit')
  web.child.kill('SIGTERM')
  await eventually(() => client.frames.length === 1, 'it is told')
  client.socket.close(1000)
  t.deepEqual(await exited, [0, null])
  t.false(web.output().includes('1013'))
})
