import { dayMs } from '../../shared/base/time.ts'
import type { Connection } from '../../shared/io/db.ts'
import { Sealer } from '../../shared/io/sealer.ts'
import { Payloads } from '../../shared/responses/payloads.ts'
import { Conversations } from '../../shared/responses/stored-conversations.ts'
import { StoredResponses } from '../../shared/responses/stored-responses.ts'
import { runMaintenance } from '../../workers/maintenance.ts'
import { responsesReply } from '../emulators/openai-responses.ts'
import { broken } from '../support/batches/world.ts'
import { dataOf } from '../support/chat/gateway.ts'
import { gated } from '../support/delayed/jobs.ts'
import { eventually } from '../support/gateway.ts'
import { untilOver } from '../support/responses/background.ts'
import { keepingAccount, startWorld, waitsForLock } from '../support/responses/world.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

const secret = 'the lighthouse keeper'
const encryptionKey = 'k'.repeat(32)
const large = 'word '.repeat(100_000)
const hi = { model: 'gpt-4.1', input: secret, instructions: secret }
let offsetMs = 0
const world = use(test, () => {
  const clock = { now: () => Date.now() + offsetMs }
  const env = {
    OPENROUTER_API_KEY: '',
    ENCRYPTION_KEY: encryptionKey,
    RESPONSE_RETENTION_DAYS: '20',
    UPSTREAM_READ_ON_MS: '0',
  }
  return startWorld(env, clock)
})
test.beforeEach(() => {
  offsetMs = 0
  world.openai.reset()
})

const services = () => world.gateway.services
const expire = () => runMaintenance('expire', null, services())

async function countsOf(organisationId: string) {
  const where = { organisationId }
  const { db } = services()
  const [responses, conversations, items, files, usage] = await Promise.all([
    db.storedResponse.count({ where }),
    db.conversation.count({ where }),
    db.conversationItem.count({ where }),
    db.file.count({ where }),
    db.storageUsage.findFirst({ where }),
  ])
  return { responses, conversations, items, files, bytes: Number(usage?.bytes ?? 0n) }
}
const nothing = { responses: 0, conversations: 0, items: 0, files: 0, bytes: 0 }

test.serial('503 with retry-after when another process encrypted it with a key that this one lacks yet', async t => {
  const account = await keepingAccount(world)
  const client = world.sdk(account.live)
  const { id } = await client.responses.create(hi)
  const lacked = "overlay(%s PLACING 'sealed:1:00000000:'::bytea FROM 1)"
  const columns = ['head', 'items'].map(column => `${column} = ${lacked.replace('%s', column)}`)
  await services().db.$executeRawUnsafe(`UPDATE stored_responses SET ${columns} WHERE id = $1`, id)
  const asked = world.openai.requests.length
  for (const [path, body] of [
    [`/v1/responses/${id}`],
    ['/v1/responses', { ...hi, previous_response_id: id }],
  ] as const) {
    const response = await world.gateway.fetch(path, { key: account.live, ...(body && { body }) })
    t.is(response.status, 503, path)
    t.is(response.headers.get('retry-after'), '5')
    t.notRegex(await response.text(), /00000000|ENCRYPTION_KEY/)
  }
  t.is(world.openai.requests.length, asked)
  t.deepEqual(await world.gateway.settled(), [])
  await services().db.storedResponse.delete({ where: { id } }) // No other test has the key.
})

test.serial('completed when another process encrypted its request meanwhile, once this one has the key', async t => {
  const { db, storedResponses } = services()
  const refused = Promise.withResolvers<void>()
  const readItems: typeof storedResponses.readItems = (...of) =>
    storedResponses.readItems(...of).catch(error => {
      refused.resolve()
      throw error
    })
  const workers = startWorkers({ ...services(), storedResponses: broken(storedResponses, 'readItems', readItems) })
  t.teardown(() => workers.stop())
  const client = world.sdk((await keepingAccount(world)).live)
  const answer = gated(responsesReply())
  world.openai.next(answer.reply)
  const { id } = await client.responses.create({ ...hi, background: true })
  await eventually(() => world.openai.requests.length === 1, 'it is being made')
  const { items } = await db.storedResponse.findUniqueOrThrow({ where: { id } })
  await db.$executeRaw`
    UPDATE stored_responses SET items = overlay(items PLACING 'sealed:1:00000000:'::bytea FROM 1) WHERE id = ${id}`
  answer.go()
  await refused.promise
  await db.storedResponse.update({ where: { id }, data: { items } })
  t.like(await untilOver(client, id), { status: 'completed', error: null })
  t.is(world.openai.requests.length, 1)
})

test.serial('content is encrypted at rest, and bound to its row', async t => {
  const account = await keepingAccount(world)
  const client = world.sdk(account.live)
  const { id: conversation } = await client.conversations.create({})
  const first = await client.responses.create({ ...hi, conversation })
  const second = await client.responses.create(hi)
  const { db } = services()
  const [rows] = await db.$queryRawUnsafe<{ text: string }[]>(
    `SELECT string_agg(encode(head, 'escape') || encode(items, 'escape'), '') ||
       (SELECT string_agg(encode(item, 'escape'), '') FROM conversation_items) AS text FROM stored_responses`,
  )
  t.false(rows!.text.includes('lighthouse'))
  t.true(rows!.text.includes('sealed:1:'))
  const { items } = await db.storedResponse.findUniqueOrThrow({ where: { id: first.id } })
  await db.storedResponse.update({ where: { id: second.id }, data: { items: items! } })
  const response = await world.gateway.fetch(`/v1/responses/${second.id}`, { key: account.live })
  t.is(response.status, 500)
  await client.responses.delete(second.id)
})

test.serial(
  'metadata of a conversation is encrypted, and what a process of the release before wrote is read',
  async t => {
    const account = await keepingAccount(world)
    const client = world.sdk(account.live)
    const { db } = services()
    const stored = async (id: string) => {
      const [row] = await db.$queryRaw<{ text: string }[]>`
      SELECT metadata::text || coalesce(encode(sealed_metadata, 'escape'), '') AS text FROM conversations WHERE id = ${id}`
      return row!.text
    }
    const { id, metadata } = await client.conversations.create({ metadata: { patient: 'lighthouse' } })
    t.deepEqual(metadata, { patient: 'lighthouse' })
    t.regex(await stored(id), /^\{\}sealed:1:/)
    const read = async () => (await client.conversations.retrieve(id)).metadata
    t.deepEqual(await read(), { patient: 'lighthouse' })
    t.deepEqual((await client.conversations.update(id, { metadata: { topic: 'lighthouse' } })).metadata, {
      topic: 'lighthouse',
    })
    t.regex(await stored(id), /^\{\}sealed:1:/)
    t.deepEqual(await read(), { topic: 'lighthouse' })
    // As the release before does, which does not know the other column.
    await db.conversation.update({ where: { id }, data: { metadata: { topic: 'lighthouse keeper' } } })
    t.deepEqual(await read(), { topic: 'lighthouse keeper' })
    t.true((await services().conversations.reseal()) >= 1)
    t.regex(await stored(id), /^\{\}sealed:1:/)
    t.deepEqual(await read(), { topic: 'lighthouse keeper' })
    await client.conversations.update(id, { metadata: {} })
    t.is(await stored(id), '{}')
    t.deepEqual(await read(), {})
    const { id: other } = await client.conversations.create({ metadata: { a: 'b' } })
    const { sealedMetadata } = await db.conversation.findUniqueOrThrow({ where: { id: other } })
    await db.conversation.update({ where: { id }, data: { sealedMetadata } })
    t.is((await world.gateway.fetch(`/v1/conversations/${id}`, { key: account.live })).status, 500, 'bound to its row')
    await db.conversation.delete({ where: { id } })
  },
)

test.serial('content is encrypted with a new key, in rows and in storage', async t => {
  const account = await keepingAccount(world)
  const client = world.sdk(account.live)
  const message = (content: string) => ({ type: 'message' as const, role: 'user' as const, content })
  const responses = [await client.responses.create(hi), await client.responses.create({ ...hi, input: large })]
  const { id } = await client.conversations.create({ items: [message('small'), message(large)] })
  const { db, clock, files, blobs } = services()
  const readers = (keys: string[]) => {
    const payloads = new Payloads({ files, blobs, sealer: new Sealer(keys) })
    return {
      responses: new StoredResponses({ db, clock, payloads }),
      conversations: new Conversations({ db, clock, payloads }),
    }
  }
  const [oldKey, newKey] = [encryptionKey, 'n'.repeat(32)]
  const both = readers([newKey, oldKey])
  t.true((await both.responses.reseal()) >= 2)
  t.true((await both.conversations.reseal()) >= 2)
  t.is((await both.responses.reseal()) + (await both.conversations.reseal()), 0)
  const alone = readers([newKey])
  const items = await alone.responses.readItems(responses.map(response => response.id))
  t.deepEqual(
    items.map(([item]) => item),
    [message(secret), message(large)],
  )
  const listed = await alone.conversations.readItems(id)
  t.deepEqual(
    listed.map(({ item }) => item),
    [message('small'), message(large)],
  )
  t.deepEqual(await world.gateway.settled(), [])
  t.like(await countsOf(account.organisationId), { files: 2 })
  const back = readers([oldKey, newKey])
  t.true((await back.responses.reseal()) + (await back.conversations.reseal()) >= 4)
  t.is((await client.responses.retrieve(responses[0]!.id)).id, responses[0]!.id)
})

test.serial('a response that ends while its content is encrypted keeps what it ended with', async t => {
  const account = await keepingAccount(world)
  const { id } = await world.sdk(account.live).responses.create(hi)
  const { db, clock, files, blobs } = services()
  const payloads = new Payloads({ files, blobs, sealer: new Sealer(['n'.repeat(32), encryptionKey]) })
  const responses = new StoredResponses({ db, clock, payloads })
  const end = { status: 'failed', head: Buffer.from('the end') } as const
  let encrypting: Promise<number> | undefined
  const commit = async (tx: Connection) => {
    await tx.storedResponse.update({ where: { id }, data: end })
    encrypting = responses.reseal()
    await eventually(() => waitsForLock(db), 'it has read the row, and waits to write it')
  }
  await db.$transaction(commit, { timeout: 60_000 })
  await encrypting
  const { status, head } = await db.storedResponse.findUniqueOrThrow({ where: { id } })
  t.deepEqual({ status, head: Buffer.from(head!) }, end)
  await db.storedResponse.delete({ where: { id } })
})

test.serial('large content goes to storage, and leaves it with the response', async t => {
  const account = await keepingAccount(world)
  const client = world.sdk(account.live)
  const first = await client.responses.create({ ...hi, instructions: large, input: large, max_output_tokens: 16 })
  t.like(await countsOf(account.organisationId), { responses: 1, files: 2 })
  const second = await client.responses.create({ ...hi, previous_response_id: first.id })
  t.is(world.openai.requests.at(-1)!.body.input[0].content, large)
  t.is((await client.responses.retrieve(first.id)).instructions, large)
  const { id } = await client.conversations.create({ items: [{ type: 'message', role: 'user', content: large }] })
  await client.responses.create({ ...hi, conversation: id })
  t.is(world.openai.requests.at(-1)!.body.input[0].content, large)
  t.deepEqual(await world.gateway.settled(), [])
  await client.conversations.delete(id)
  t.like(await countsOf(account.organisationId), { files: 2, items: 0 })
  await client.responses.delete(first.id)
  t.like(await countsOf(account.organisationId), { files: 0 })
  t.is((await client.responses.retrieve(second.id)).id, second.id)
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial('responses expire by their age, conversations since their last use', async t => {
  const account = await keepingAccount(world, { retentionDays: 3 })
  const client = world.sdk(account.live)
  const { id } = await client.conversations.create({ items: [{ type: 'message', role: 'user', content: large }] })
  const old = await client.responses.create(hi)
  offsetMs = 2 * dayMs
  await client.responses.create({ ...hi, conversation: id })
  offsetMs = 4 * dayMs
  await t.throwsAsync(client.responses.retrieve(old.id), { message: /not found/ })
  await expire()
  t.like(await countsOf(account.organisationId), { responses: 1, conversations: 1, items: 3, files: 1 })
  await client.responses.create({ ...hi, conversation: id, store: false })
  t.is(world.openai.requests.at(-1)!.body.input[0].content, large)
  offsetMs = 8 * dayMs
  await t.throwsAsync(client.conversations.retrieve(id), { message: /not found/ })
  await expire()
  t.deepEqual(await countsOf(account.organisationId), nothing)
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial('the operator’s retention is the longest', async t => {
  const account = await keepingAccount(world, { retentionDays: 300 })
  const { id } = await world.sdk(account.live).responses.create(hi)
  const { createdAt, expiresAt } = await services().db.storedResponse.findUniqueOrThrow({ where: { id } })
  t.true(Math.abs(expiresAt.getTime() - createdAt.getTime() - 20 * dayMs) < 60_000)
})

test.serial('without room: 403 for who asks for storage, an unstored answer for others', async t => {
  const account = await keepingAccount(world)
  const client = world.sdk(account.live)
  await services().db.storageUsage.upsert({
    where: { organisationId_environment: { organisationId: account.organisationId, environment: 'live' } },
    create: { organisationId: account.organisationId, environment: 'live', files: 0n, bytes: 1n << 50n },
    update: { bytes: 1n << 50n },
  })
  const error = await t.throwsAsync<Error & { status: number }>(client.responses.create({ ...hi, store: true }))
  t.like(error, { status: 403, code: 'quota_exceeded' })
  t.is(world.openai.requests.length, 0)
  const whole = await client.responses.create(hi)
  t.like(whole, { status: 'completed', store: false })
  const streamed = await client.responses.stream(hi).finalResponse()
  t.like(streamed, { status: 'completed', store: false })
  await services().db.storageUsage.deleteMany({ where: { organisationId: account.organisationId } })
  t.deepEqual(await countsOf(account.organisationId), nothing)
})

test.serial('the switch is turned off during a request: nothing is stored, and the answer says so', async t => {
  const account = await keepingAccount(world)
  const client = world.sdk(account.live)
  for (const streamed of [false, true]) {
    const setKept = (keepResponses: boolean) =>
      services().db.organisation.update({ where: { id: account.organisationId }, data: { keepResponses } })
    await setKept(true)
    world.openai.next(async (request, response) => {
      await setKept(false)
      return responsesReply()(request, response)
    })
    const body = { ...hi, store: true }
    const response = streamed
      ? await client.responses.stream(body).finalResponse()
      : await client.responses.create(body)
    t.like(response, { status: 'completed', store: false })
  }
  t.like(await countsOf(account.organisationId), nothing)
})

test.serial('a client that leaves a stream before its end stores nothing', async t => {
  const { live: key, organisationId } = await keepingAccount(world)
  const abort = new AbortController()
  let release = () => {}
  const held = new Promise<void>(resolve => {
    release = resolve
  })
  world.openai.next(async (request, response) => {
    const end = response.end.bind(response)
    response.end = (() => response) as never
    const write = response.write.bind(response) as (text: string, written: () => void) => boolean
    response.write = ((text: string, written: () => void) =>
      text.startsWith('event: response.completed') ? void held.then(written) : write(text, written)) as never
    await responsesReply()(request, response)
    end()
  })
  const body = { ...hi, stream: true }
  const response = await world.gateway.fetch('/v1/responses', { key, body, signal: abort.signal })
  const { value } = await response.body!.getReader().read()
  t.is(dataOf(Buffer.from(value!).toString())[0].type, 'response.created')
  abort.abort()
  await eventually(async () => (await services().db.generation.count({ where: { organisationId } })) === 1, 'booked')
  release()
  t.deepEqual(await countsOf(organisationId), nothing)
})

test.serial('a conversation that is too long is a 400 before any provider is called', async t => {
  const account = await keepingAccount(world)
  const client = world.sdk(account.live)
  const { id } = await client.responses.create(hi)
  await services().db.storedResponse.update({ where: { id }, data: { itemsBytes: 32 * 1024 * 1024 } })
  world.openai.reset()
  const error = await t.throwsAsync<Error & { status: number; param: string }>(
    client.responses.create({ ...hi, previous_response_id: id }),
  )
  t.like(error, { status: 400, code: 'context_length_exceeded', param: 'previous_response_id' })
  t.is(world.openai.requests.length, 0)
  t.is(services().budgets.bodies.bytes, 0)
})

test.serial('an answer is stored before its last event is sent', async t => {
  const { live: key } = await keepingAccount(world)
  const client = world.sdk(key)
  for (let turn = 0; turn < 5; turn++) {
    const stream = await client.responses.create({ ...hi, stream: true })
    for await (const event of stream)
      if (event.type === 'response.completed')
        t.is((await client.responses.retrieve(event.response.id)).status, 'completed')
  }
})

test.serial('the requests of a chain have one session, which a request may name', async t => {
  const account = await keepingAccount(world)
  const client = world.sdk(account.live)
  const sessionOf = async (id: string) =>
    (await services().db.storedResponse.findUniqueOrThrow({ where: { id } })).session
  const first = await client.responses.create(hi)
  const second = await client.responses.create({ ...hi, previous_response_id: first.id })
  t.is(await sessionOf(second.id), await sessionOf(first.id))
  const named = await client.responses.create({ ...hi, previous_response_id: second.id, prompt_cache_key: 'mine' })
  t.is(await sessionOf(named.id), 'mine')
  const last = await client.responses.create({ ...hi, previous_response_id: named.id })
  t.is(await sessionOf(last.id), 'mine')
  t.not(await sessionOf((await client.responses.create(hi)).id), await sessionOf(first.id))
})
