import { hang } from '../emulators/emulator.ts'
import { batchOf, createBatch, jsonLines, resultsOf, uploadInput } from '../support/batches/gateway.ts'
import { BatchWorld, coinLines, idsOf } from '../support/batches/world.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { testClock } from '../support/wallet/money.ts'

const clock = testClock('2026-11-20T12:00:00Z')
const world = use(test, () => BatchWorld.start({ ALLOW_PRIVATE_URLS: 'false' }, clock))
const account = use(test, () => world.gateway.account())

const endpoint = '/v1/chat/completions'
const requests = coinLines(2)

/** What a request to create a batch is refused with: status, code, field. */
async function refusal(body: object | string, key = account.live): Promise<unknown[]> {
  const response = await world.gateway.fetch('/v1/batches', { key, body })
  const { error } = (await response.json()) as { error?: { code: string; param: string | null } }
  return [response.status, error?.code, error?.param]
}

test.serial('400 naming the field: what cannot be stored or makes no sense', async t => {
  const lone = JSON.stringify({ requests, metadata: { a: 'x' } }).replace('"x"', '"\\ud800"')
  const cases: [object | string, string, string | null][] = [
    [{ requests, metadata: { a: 'a\0b' } }, 'invalid_request', 'metadata.a'],
    [{ requests, metadata: { 'a\0': 'b' } }, 'invalid_request', 'metadata.a\0'],
    [lone, 'invalid_request', 'metadata.a'],
    [{ requests, metadata: { a: 1 } }, 'invalid_request', 'metadata.a'],
    [{ input_file_id: 'file-\0', endpoint }, 'invalid_request', 'input_file_id'],
    [{ requests, endpoint: `${endpoint}\0` }, 'invalid_request', 'endpoint'],
    [{ requests: [1] }, 'invalid_request', 'requests.0'],
    [{ requests: {} }, 'invalid_request', 'requests'],
    [{ requests: [{}] }, 'invalid_request', 'requests.0.url'],
    [{ requests: [{ url: '__proto__' }] }, 'invalid_request', 'requests.0.url'],
    [{ requests: Array.from({ length: 1_001 }, () => ({})) }, 'invalid_request', 'requests'],
    [{ requests, completion_window: '1h' }, 'invalid_request', 'completion_window'],
    [{ requests, webhook_url: 'http://127.0.0.1/' }, 'url_not_allowed', 'webhook_url'],
    [{ requests, webhook_url: 'x' }, 'url_not_allowed', 'webhook_url'],
  ]
  for (const [body, code, param] of cases)
    t.deepEqual(await refusal(body), [400, code, param], JSON.stringify(body).slice(0, 100))
  t.is(await world.gateway.services.db.batch.count(), 0)
})

test.serial('404: files that are no input, or not this key’s', async t => {
  const door = world.door(account)
  const { services } = world.gateway
  const id = await world.created(door, requests)
  await world.visit(id)
  const { output_file_id: output, input_file_id: input } = await batchOf(door, id)
  const missing = [404, 'not_found', 'input_file_id']
  t.deepEqual(await refusal({ input_file_id: output!, endpoint }), missing)
  t.deepEqual(await refusal({ input_file_id: input, endpoint }, account.test), missing)
  t.deepEqual(await refusal({ input_file_id: input, endpoint }, (await world.gateway.account()).live), missing)
  await services.db.file.update({ where: { id: input }, data: { expiresAt: new Date(clock.now()) } })
  t.deepEqual(await refusal({ input_file_id: input, endpoint }), missing)
})

test.serial('completed although its input was deleted and expired before it was read', async t => {
  const own = await world.gateway.account()
  const door = world.door(own)
  const { services } = world.gateway
  const input = await uploadInput(door, jsonLines(requests))
  const { id } = await createBatch(door, input, { batch_routing: 'gateway' })
  t.is((await world.gateway.fetch(`/v1/files/${input}`, { key: own.live, method: 'DELETE' })).status, 200)
  await services.files.expire(clock.now() + 1)
  t.is(await world.visit(id), null)
  t.deepEqual(await world.faults(door, id, idsOf(requests), own.organisationId), [])
  t.is(await services.db.file.count({ where: { id: input } }), 0)
})

test.serial('made once: the same Idempotency-Key gives the same batch, while it runs and afterwards', async t => {
  const headers = { 'idempotency-key': 'again' }
  const body = { requests, batch_routing: 'gateway' }
  const create = async () => {
    const response = await world.gateway.fetch('/v1/batches', { key: account.live, headers, body })
    return (await response.json()) as { id: string }
  }
  const { id } = await create()
  t.is((await create()).id, id)
  await world.visit(id)
  t.is((await create()).id, id)
})

test.serial(
  '504 for a line that exceeds the timeout of its request, called once, at the cost of what was made',
  async t => {
    const own = await world.gateway.account()
    const door = world.door(own)
    const lines = coinLines(1, { provider: { timeout_ms: 1_500 } })
    const { answers } = world
    const callsOfLine = () => world.asked.get('line-0') ?? 0
    const callsBefore = callsOfLine()
    world.answers = () => hang
    const id = await world.created(door, lines)
    await world.visit(id)
    world.answers = answers
    const { errors } = await resultsOf(door, await batchOf(door, id))
    t.is(errors[0]!.response!.status_code, 504)
    t.is(callsOfLine() - callsBefore, 1)
    t.deepEqual(await world.faults(door, id, idsOf(lines), own.organisationId), [])
    t.true((await batchOf(door, id)).cost_usd! > 0)
  },
)

test.serial('completed: line ends of Windows, blank lines at the end, none after the last line', async t => {
  const own = await world.gateway.account()
  const door = world.door(own)
  const text = requests.map(line => JSON.stringify(line))
  for (const input of [text.join('\r\n'), text.join('\n'), `${text.join('\r\n')}\r\n\r\n  \n`]) {
    const { id } = await createBatch(door, await uploadInput(door, input), { batch_routing: 'gateway' })
    await world.visit(id)
    const batch = await batchOf(door, id)
    t.deepEqual(batch.request_counts, { total: 2, completed: 2, failed: 0 })
    t.is((await resultsOf(door, batch)).output.length, 2)
  }
})

test.serial('pages of the list miss none and give none twice while batches are being made', async t => {
  const own = await world.gateway.account()
  const make = async () => {
    const response = await world.gateway.fetch('/v1/batches', { key: own.live, body: { requests } })
    return ((await response.json()) as { id: string }).id
  }
  const first: string[] = []
  for (let i = 0; i < 9; i++) first.push(await make())
  const seen: string[] = []
  for (let after = ''; ; ) {
    const path = `/v1/batches?limit=2${after && `&after=${after}`}`
    const [response] = await Promise.all([world.gateway.fetch(path, { key: own.live }), make()])
    const page = (await response.json()) as { data: { id: string }[]; has_more: boolean; last_id: string }
    seen.push(...page.data.map(({ id }) => id))
    if (!page.has_more) break
    after = page.last_id
  }
  t.is(new Set(seen).size, seen.length)
  for (const id of first) t.true(seen.includes(id))
})

test.serial('503 when the store fails as a batch is committed: its input stays, as it may be there', async t => {
  const { db } = world.gateway.services
  const own = await world.gateway.account()
  await db.$executeRawUnsafe(
    `CREATE FUNCTION fail_batch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'full' USING ERRCODE = '53100'; END $$`,
  )
  await db.$executeRawUnsafe(
    `CREATE CONSTRAINT TRIGGER fail_batch AFTER INSERT ON batches DEFERRABLE INITIALLY DEFERRED
       FOR EACH ROW EXECUTE FUNCTION fail_batch()`,
  )
  try {
    t.like(await refusal({ requests }, own.live), [503, 'service_unavailable'])
  } finally {
    await db.$executeRawUnsafe('DROP FUNCTION fail_batch CASCADE')
  }
  const { organisationId } = own
  t.is(await db.batch.count({ where: { organisationId } }), 0)
  t.is(await db.file.count({ where: { organisationId, purpose: 'batch', deletedAt: null } }), 1)
})
