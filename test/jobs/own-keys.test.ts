// Own provider keys in every kind of work that is not answered at once, and in sessions and images.
import { operatorActor } from '../../shared/io/audit.ts'
import { Emulator, type Recorded, type Reply } from '../emulators/emulator.ts'
import { klingError, startKling } from '../emulators/kling.ts'
import { startMagicHour } from '../emulators/magic-hour.ts'
import { failure, reply } from '../emulators/openai.ts'
import { startOpenAiImages } from '../emulators/openai-images.ts'
import { RealtimeEmulator } from '../emulators/openai-realtime.ts'
import { chatLine, createBatch, ended, jsonLines, resultsOf, uploadInput } from '../support/batches/gateway.ts'
import { path as delayedPath } from '../support/delayed/jobs.ts'
import { eventually, type Gateway, type KeyOptions } from '../support/gateway.ts'
import { clip, image, over, rowOf, running, submit } from '../support/jobs/gateway.ts'
import { openTalk } from '../support/realtime/sdk.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

const own = 'own-secret-0a1b2c3d'
const shared = 'upstream-secret-0123456789'
const video = { model: 'kling-v3-standard', prompt: 'A lighthouse at dusk', seconds: 5 }
const answers = new Map<string, Reply>()

const kling = use(test, () => startKling({ accounts: { shared: 'secret', mine: 'own-secret', newer: 'own-secret' } }))
const openai = use(test, () =>
  Emulator.start((request, response) => (answers.get(keyOf(request)) ?? reply)(request, response)),
)
const faces = use(test, startMagicHour)
const talking = use(test, () => RealtimeEmulator.start())
const images = use(test, startOpenAiImages)
const gateway = useGateway(test, () => ({
  KLING_API_KEY: 'shared:secret',
  KLING_BASE_URL: `${kling.url}/v1`,
  OPENAI_API_KEY: shared,
  OPENAI_BASE_URL: `${openai.url}/v1`,
  MAGIC_HOUR_API_KEY: 'shared',
  MAGIC_HOUR_BASE_URL: faces.url,
}))
const sessions = useGateway(test, () => ({
  OPENAI_API_KEY: shared,
  OPENAI_BASE_URL: talking.baseUrl,
  OWN_KEY_FEE_PERCENT: '10',
}))
const painting = useGateway(test, () => ({ OPENAI_API_KEY: shared, OPENAI_BASE_URL: `${images.url}/v1` }))
use(test, () => startWorkers(gateway.services))
test.beforeEach(() => {
  kling.emulator.reset()
  openai.reset()
  answers.clear()
})

const keyOf = ({ headers }: Recorded) => String(headers.authorization).replace('Bearer ', '')
const issuerOf = ({ headers }: Recorded) =>
  JSON.parse(Buffer.from(String(headers.authorization).split('.')[1]!, 'base64url').toString()).iss as string
const issuers = () => [...new Set(kling.emulator.requests.map(issuerOf))]

/** An organisation without credits, with an own key, and a live key in a mode. */
async function organisation(
  at: Gateway,
  provider: string,
  secret: string,
  own_keys: KeyOptions['own_keys'] = 'own',
  usd = '0',
) {
  const account = await at.account({ usd })
  const { providerKeys } = at.services
  const input = { provider, name: 'Mine', secret }
  const row = await providerKeys.create(account.organisationId, input, operatorActor)
  return { ...account, id: row.id, live: await at.key(account.organisationId, 'live', { own_keys }) }
}

test.serial('a media job runs, is polled and ends with the own key, and costs nothing without a fee', async t => {
  const { live, id, organisationId } = await organisation(gateway, 'kling', 'mine:own-secret')
  const job = await submit(gateway, '/v1/videos', live, video)
  await running(gateway, job.id)
  t.is((await rowOf(gateway, job.id)).credentialId, id)
  // Its secret is replaced while it runs: the same account has a newer key.
  await gateway.services.providerKeys.update(organisationId, id, { secret: 'newer:own-secret' }, operatorActor)
  kling.finish()
  t.like(await over(gateway, live, '/v1/videos', job.id), { status: 'completed', cost_usd: 0 })
  t.deepEqual(issuers(), ['mine', 'newer'])
  const row = await gateway.services.db.generation.findFirstOrThrow({ where: { id: job.id } })
  t.is(row.providerKeyId, id)
  t.true(row.upstreamCostNano! > 0n)
  t.false(
    JSON.stringify(
      await rowOf(gateway, job.id),
      (_, value) => String(value) && (typeof value === 'bigint' ? 0 : value),
    ).includes('own-secret'),
  )
  t.deepEqual(await gateway.settled(), [])
})

test.serial(
  'completed though PostgreSQL does not give the own key once its start is claimed: it is started again',
  async t => {
    const { live } = await organisation(gateway, 'kling', 'mine:own-secret')
    const { db } = gateway.services
    const run = (sql: string) => db.$executeRawUnsafe(sql)
    await run(`CREATE FUNCTION hide_keys() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN ALTER TABLE IF EXISTS provider_keys RENAME TO hidden_keys; RETURN NEW; END $$`)
    await run(`CREATE TRIGGER hide_keys BEFORE UPDATE ON jobs FOR EACH ROW WHEN (NEW.stage = 'starting')
    EXECUTE FUNCTION hide_keys()`)
    const job = await submit(gateway, '/v1/videos', live, video)
    const isHidden = async () => {
      const [found] = await db.$queryRaw<{ hidden: boolean }[]>`SELECT to_regclass('hidden_keys') IS NOT NULL AS hidden`
      return found!.hidden
    }
    await eventually(isHidden, 'its start is claimed')
    await eventually(async () => (await rowOf(gateway, job.id)).stage !== 'starting', 'the start has failed')
    t.is((await rowOf(gateway, job.id)).stage, 'waiting')
    await run('DROP TRIGGER hide_keys ON jobs')
    await run('ALTER TABLE hidden_keys RENAME TO provider_keys')
    await running(gateway, job.id)
    kling.finish()
    t.like(await over(gateway, live, '/v1/videos', job.id), { status: 'completed', cost_usd: 0 })
    t.deepEqual(await gateway.settled(), [])
  },
)

test.serial(
  'failed with own_key_refused where the own key is refused or deleted, never with the operator’s',
  async t => {
    const { live, id, organisationId } = await organisation(gateway, 'kling', 'mine:own-secret', 'own_then_shared', '5')
    const running1 = await submit(gateway, '/v1/videos', live, video)
    await running(gateway, running1.id)
    await gateway.services.providerKeys.delete(organisationId, id, operatorActor)
    const gone = await over(gateway, live, '/v1/videos', running1.id)
    t.like(gone, { status: 'failed', error: { code: 'own_key_refused' }, cost_usd: 0 })
    const other = await organisation(gateway, 'kling', 'mine:own-secret')
    kling.emulator.next(klingError(401, 1002, 'Authorization is invalid'))
    const refused = await submit(gateway, '/v1/videos', other.live, video)
    const failed = await over(gateway, other.live, '/v1/videos', refused.id)
    t.like(failed, { status: 'failed', error: { code: 'own_key_refused' } })
    t.regex(failed.error.message, /kling refused your organisation’s own key “Mine”/)
    t.deepEqual(issuers(), ['mine'])
    t.deepEqual(await gateway.settled(), [])
  },
)

test.serial(
  '202 with an empty wallet: a job that runs with the own key holds its fee, not the price of the operator’s key',
  async t => {
    const { live, id } = await organisation(gateway, 'magic_hour', own, 'own_then_shared')
    const body = { video_url: await clip(2), face_image_url: image, source_face_consent: true }
    const job = await submit(gateway, '/v1/face-swap', live, body)
    await running(gateway, job.id)
    t.like(await rowOf(gateway, job.id), { credentialId: id, holdNano: 0n })
    faces.finish()
    t.like(await over(gateway, live, '/v1/face-swap', job.id), { status: 'completed', cost_usd: 0 })
    t.deepEqual(await gateway.settled(), [])
  },
)

test.serial('batches and delayed jobs run with the own key, for nothing with an empty wallet', async t => {
  const { live } = await organisation(gateway, 'openai', own)
  const door = { url: gateway.url, key: live }
  const lines = ['a', 'b', 'c'].map(name => chatLine(name, 'gpt-4o-mini', 'Hello', { max_tokens: 20 }))
  const batch = await ended(door, (await createBatch(door, await uploadInput(door, jsonLines(lines)))).id)
  t.like(batch, { status: 'completed', request_counts: { total: 3, completed: 3, failed: 0 }, cost_usd: 0 })
  t.is((await resultsOf(door, batch)).output.length, 3)
  const body = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 20 }
  const job = await submit(gateway, delayedPath, live, { body, completion_window: '1h' })
  t.like(await over(gateway, live, delayedPath, job.id), { status: 'completed', cost_usd: 0 })
  const called = openai.requests.filter(({ method }) => method === 'POST').map(keyOf)
  t.deepEqual(called, [own, own, own, own])
  t.deepEqual(await gateway.settled(), [])
})

test.serial('failed: a delayed job whose own key is revoked at the provider names it', async t => {
  const { live } = await organisation(gateway, 'openai', own)
  answers.set(own, failure(401, `Incorrect API key provided: ${own}.`, 'invalid_request_error', 'invalid_api_key'))
  const body = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 20 }
  const job = await submit(gateway, delayedPath, live, { body, completion_window: '1h' })
  const done = await over(gateway, live, delayedPath, job.id)
  t.like(done, { status: 'failed', error: { code: 'own_key_refused' } })
  t.false(JSON.stringify(done).includes(own))
})

test.serial('a realtime session is opened with the own key and charged its fee', async t => {
  const { live, id, organisationId } = await organisation(sessions, 'openai', own, 'own', '5')
  const session = await openTalk(sessions.url, live, { model: 'gpt-realtime-2.1' })
  await session.heard('session.created')
  t.is(talking.last.headers.authorization, `Bearer ${own}`)
  session.client.send({ type: 'response.create' })
  await session.heard('response.done')
  await session.close()
  const find = () => sessions.services.db.generation.findFirst({ where: { organisationId, kind: 'realtime' } })
  await eventually(async () => (await find())?.upstreamCostNano != null, 'the session is booked')
  t.deepEqual(await sessions.settled(), [])
  const row = (await find())!
  t.is(row.providerKeyId, id)
  t.true(row.costNano > 0n)
  t.true(Math.abs(Number(row.costNano) * 10 - Number(row.upstreamCostNano)) <= 100)
})

test.serial('200 with images by the own key', async t => {
  const { live, organisationId } = await organisation(painting, 'openai', own)
  images.reset()
  const response = await painting.fetch('/v1/images/generations', {
    key: live,
    body: { model: 'gpt-image-2', prompt: 'A lighthouse', response_format: 'b64_json' },
  })
  t.is(response.status, 200, await response.text())
  t.is(response.headers.get('x-gateway-own-key'), '1')
  t.deepEqual(images.requests.map(keyOf), [own])
  t.deepEqual(await painting.settled(), [])
  const row = await painting.services.db.generation.findFirstOrThrow({ where: { organisationId } })
  t.like(row, { costNano: 0n, waiver: 'own_key' })
  t.true(row.upstreamCostNano! > 0n)
})
