import { events, reset } from '../emulators/emulator.ts'
import { responsesReply } from '../emulators/openai-responses.ts'
import { chargedNano, startWorld, type World } from '../support/chat/gateway.ts'
import { begunEvents, neverEnding } from '../support/chat/responses-events.ts'
import { openResponses, textOf } from '../support/chat/responses-socket.ts'
import { eventually } from '../support/gateway.ts'
import { refusedSession } from '../support/realtime/sockets.ts'
import { test } from '../support/test.ts'

/** Turns whose provider, client or process ends: on a gateway of each test's own. */

let skippedMs = 0
const clock = { now: () => Date.now() + skippedMs }
const model = 'gpt-4o-mini'
const hi = { model, input: 'Hello' }

async function withWorld(run: (world: World) => Promise<void>, env: Record<string, string> = {}): Promise<void> {
  const world = await startWorld({ OPENROUTER_API_KEY: '', ...env }, clock)
  try {
    await run(world)
  } finally {
    await world.close()
  }
}

const open = ({ gateway }: World, key: string) => openResponses(gateway.url, { key })

test.serial('a stream that its provider breaks ends with `response.failed`; the next turn works', async t => {
  await withWorld(async world => {
    const account = await world.gateway.account({ usd: '100' })
    const client = await open(world, account.live)
    world.openai.next(responsesReply({ cutAfter: 6 }))
    const events = await client.turn(hi)
    t.like(events.at(-1), {
      type: 'response.failed',
      response: { id: 'resp_emulated', error: { code: 'server_error' } },
    })
    t.is(client.events.filter(({ type }) => type === 'error').length, 0)
    world.openai.next(...Array(8).fill(reset))
    t.like(await client.refused(hi), { status: 502, error: { code: 'upstream_error' } })
    world.openai.reset()
    const again = await client.refused({ ...hi, previous_response_id: 'resp_emulated' })
    t.like(again, { error: { code: 'previous_response_not_found' } })
    const other = { model: 'claude-haiku-4-5', input: 'Hello' }
    t.is((await client.turn(other)).at(-1).type, 'response.completed')
    t.true((await chargedNano(world, account)) > 0)
    await client.close()
  })
})

test.serial('a client that does not read: the provider is paused, then the client is disconnected', async t => {
  await withWorld(async world => {
    const account = await world.gateway.account({ usd: '100' })
    const client = await open(world, account.live)
    const word = 'x'.repeat(64 * 1024)
    const deltas = Array.from({ length: 400 }, () => word)
    world.openai.next(events(begunEvents(...deltas), { end: 'hang' }))
    client.send({ type: 'response.create', ...hi })
    await client.until('response.output_text.delta')
    client.socket.pause()
    let stalledMs = 0
    const timer = setInterval(() => {
      // Less than the pings' timeout at once: it is the stall that ends the connection.
      skippedMs += 20_000
      stalledMs += 20_000
    }, 1_100)
    const { db } = world.gateway.services
    const where = { organisationId: account.organisationId }
    await eventually(async () => {
      await world.gateway.services.admission.flush()
      return (await db.generation.count({ where })) === 1
    }, 'the turn is over')
    clearInterval(timer)
    t.true(stalledMs >= 60_000)
    t.like(await db.generation.findFirst({ where }), { status: 499 })
    t.true((await chargedNano(world, account)) > 0)
    client.socket.resume()
    await client.end()
  })
})

test.serial('on a restart idle connections close at once, running turns end first', async t => {
  await withWorld(async world => {
    const { live: key } = await world.gateway.account({ usd: '100' })
    const [idle, busy] = await Promise.all([open(world, key), open(world, key)])
    t.is(textOf(await idle.turn(hi)), 'Echo: Hello')
    const release = Promise.withResolvers<void>()
    world.openai.next(async (request, response) => {
      await release.promise
      await responsesReply()(request, response)
    })
    busy.send({ type: 'response.create', ...hi })
    busy.send({ type: 'response.create', ...hi })
    await eventually(() => world.openai.requests.length === 2, 'the turn runs')
    const drained = world.gateway.door.drain(10_000)
    t.is((await idle.end()).code, 1012)
    t.is(busy.closed, null)
    const refusal = await refusedSession(world.gateway.url, { key, path: '/v1/responses', query: '' })
    t.is(refusal.status, 503)
    t.truthy(refusal.headers['retry-after'])
    release.resolve()
    t.is((await busy.until()).at(-1).type, 'response.completed')
    t.is((await busy.end()).code, 1012)
    await drained
    t.is(world.openai.requests.length, 2)
    t.deepEqual(await world.gateway.settled(), [])
  })
})

test.serial('a turn that the process cannot wait for ends with `response.failed`', async t => {
  await withWorld(async world => {
    const account = await world.gateway.account({ usd: '100' })
    const client = await open(world, account.live)
    world.openai.next(neverEnding('Once upon a time'))
    client.send({ type: 'response.create', ...hi })
    await client.until('response.output_text.delta')
    const drained = world.gateway.door.drain(10_000)
    world.gateway.services.shutdown.abortRunning()
    const failed = (await client.until()).at(-1)
    t.like(failed, { type: 'response.failed', response: { error: { metadata: { code: 'service_unavailable' } } } })
    t.is((await client.end()).code, 1012)
    await drained
    t.true((await chargedNano(world, account)) > 0)
  })
})

test.serial('426 without connections', async t => {
  await withWorld(
    async world => {
      const { live: key } = await world.gateway.account()
      const refusal = await refusedSession(world.gateway.url, { key, path: '/v1/responses', query: '' })
      t.is(refusal.status, 426)
      t.is(refusal.body.error.code, 'upgrade_required')
    },
    { RESPONSES_MAX_CONNECTIONS: '0' },
  )
})

test.serial('a client that answers no pings is disconnected, and its slot is free', async t => {
  await withWorld(async world => {
    const { live: key, organisationId } = await world.gateway.account()
    const client = await open(world, key)
    const slots = () => world.gateway.services.redis.zcard(`responses:${organisationId}`)
    t.is(await slots(), 1)
    client.socket.pause()
    const timer = setInterval(() => {
      skippedMs += 26_000
    }, 1_100)
    await eventually(async () => (await slots()) === 0, 'the slot is free')
    clearInterval(timer)
    client.socket.resume()
    t.is((await client.end()).code, 1006)
  })
})
