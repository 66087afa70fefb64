import { startWorld } from '../../support/chat/gateway.ts'
import { openResponses } from '../../support/chat/responses-socket.ts'
import { eventually } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

/** What a WebSocket at /v1/responses may keep in memory. */

const world = use(test, () => startWorld({ MAX_BODY_MIB_IN_FLIGHT: '72' }))

const mib = 1024 * 1024
const model = 'gpt-4o-mini'
const live = () => world.gateway.account({ usd: '100' })
const open = (key: string) => openResponses(world.gateway.url, { key })

test.serial('a frame beyond 32 MiB ends the connection with 1009', async t => {
  const { live: key } = await live()
  const client = await open(key)
  client.socket.send('x'.repeat(32 * mib + 1))
  t.is((await client.end()).code, 1009)
  await eventually(() => world.gateway.services.budgets.bodies.bytes === 0, 'the memory is released')
})

test.serial('a conversation that grows beyond 32 MiB is refused, and what is kept of it is bounded', async t => {
  const { live: key } = await live()
  const client = await open(key)
  const { conversations, bodies } = world.gateway.services.budgets
  const large = (text: string) => [{ type: 'message', role: 'user', content: text.repeat(11 * mib) }]
  const warm = async (body: object) => (await client.turn({ model, generate: false, ...body })).at(-1)
  let previous = (await warm({ input: large('a') })).response.id
  previous = (await warm({ input: large('b'), previous_response_id: previous })).response.id
  t.true(conversations.bytes > 22 * mib)
  t.like(await warm({ input: large('c'), previous_response_id: previous }), {
    status: 413,
    error: { code: 'request_too_large' },
  })
  t.like(await warm({ input: [], previous_response_id: previous }), { type: 'response.completed' })
  // Another conversation does not fit beside the first, which is forgotten.
  for (const text of ['d', 'e']) previous = (await warm({ input: large(text) })).response.id
  t.true(conversations.bytes < 32 * mib)
  t.like(await warm({ input: [], previous_response_id: previous }), { type: 'response.completed' })
  await client.close()
  await eventually(() => conversations.bytes === 0 && bodies.bytes === 0, 'the memory is released')
})

test.serial('frames count against the memory budget of request bodies while they arrive', async t => {
  const { live: key, organisationId } = await live()
  const held = world.gateway.services.budgets.bodies.open(organisationId)
  held.take(30 * mib)
  const client = await open(key)
  client.send(JSON.stringify({ type: 'response.create', model, input: 'x'.repeat(20 * mib) }))
  t.like((await client.until()).at(-1), { type: 'error', status: 429, error: { code: 'rate_limit_exceeded' } })
  client.socket.terminate()
  held.release()
  await eventually(() => world.gateway.services.budgets.bodies.bytes === 0, 'the memory is released')
})
