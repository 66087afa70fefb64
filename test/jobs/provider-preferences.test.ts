// Where jobs run whose request or key has provider preferences: at the first start, after refusals, crashes and changes of the key.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { modelRow } from '../../shared/catalog/schema.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { finishJob } from '../../shared/jobs/finish.ts'
import { startJob } from '../../shared/jobs/start.ts'
import { akoolError, startAkool } from '../emulators/akool.ts'
import { json } from '../emulators/emulator.ts'
import { startFal } from '../emulators/fal.ts'
import { klingError, startKling } from '../emulators/kling.ts'
import { magicHourError, startMagicHour } from '../emulators/magic-hour.ts'
import type { WorkEmulator } from '../emulators/slow-work.ts'
import type { KeyOptions } from '../support/gateway.ts'
import { answerOf, booked, clip, image, rowOf, submit, wallet } from '../support/jobs/gateway.ts'
import { patchKey } from '../support/realtime/sessions.ts'
import { test } from '../support/test.ts'
import { use, useFolder, useGateway } from '../support/use.ts'

const path = '/v1/videos'
const body = { model: 'two-prices', prompt: 'A lighthouse at dusk', seconds: 5 }
/** With the margin of 5 %. */
const usd = { kling: 0.525, fal: 1.05 }

// No worker runs: the tests take its steps one by one.
const folder = useFolder(test)
const kling = use(test, () => startKling({ accounts: { access: 'secret', mine: 'secret' } }))
const fal = use(test, startFal)
const magicHour = use(test, startMagicHour)
const akool = use(test, startAkool)
const gateway = useGateway(test, async () => {
  const catalog = join(folder, 'catalog.json')
  await writeFile(catalog, JSON.stringify({ models: operatorModels() }))
  return {
    MODEL_CATALOG: catalog,
    KLING_API_KEY: 'access:secret',
    KLING_BASE_URL: `${kling.url}/v1`,
    FAL_API_KEY: 'key:secret',
    FAL_BASE_URL: fal.url,
    MAGIC_HOUR_API_KEY: 'key',
    MAGIC_HOUR_BASE_URL: magicHour.url,
    AKOOL_API_KEY: 'key',
    AKOOL_BASE_URL: akool.url,
  }
})
test.beforeEach(() => {
  for (const { emulator } of [kling, fal, magicHour, akool]) emulator.reset()
})

/** Models of two providers each, which differ in price; of the first, one has terms that are known. */
function operatorModels() {
  const { models } = loadCatalog()
  const [video, swap] = [models.get('kling-v3-pro')!, models.get('magic-hour-face-swap')!]
  const [atKling, atFal] = video.providers
  const second = (price: string) => ({ unit: 'second', usd: price }) as const
  const terms = { zdr: true, data_collection: false }
  const videos = [
    { ...atKling, price: second('0.1') },
    { ...atFal, price: second('0.2'), traits: { ...atFal!.traits, ...terms } },
  ]
  const atAkool = {
    provider: 'akool',
    upstream_model: 'faceswap-plus',
    price: { unit: 'credit', usd: '0.01', max_credits: 600 },
  }
  return [
    modelRow.parse({ ...video, id: body.model, name: body.model, providers: videos }),
    modelRow.parse({ ...swap, id: 'two-swaps', name: 'two-swaps', providers: [...swap.providers, atAkool] }),
  ]
}

const creates = ({ emulator }: WorkEmulator) => emulator.requests.filter(({ method }) => method === 'POST').length
const start = (id: string) => startJob(gateway.services, id)
const shown = async (key: string, id: string) => answerOf(await gateway.fetch(`${path}/${id}`, { key }))
const setProviders = async (id: string, change: (input: Record<string, unknown>) => void) => {
  const { input } = await rowOf(gateway, id)
  change(input as Record<string, unknown>)
  await gateway.services.db.job.update({ where: { id }, data: { input: input as object } })
}

type Preferences = NonNullable<KeyOptions['provider']>
const onlyFal: [title: string, ofRequest: Preferences | undefined, ofKey?: Preferences][] = [
  ['only of the request', { only: ['fal'] }],
  ['ignore of the request', { ignore: ['kling'] }],
  ['zdr of the request', { zdr: true }],
  ['data_collection of the request', { data_collection: 'deny' }],
  ['order without fallbacks of the request', { order: ['fal'], allow_fallbacks: false }],
  ['order of the request', { order: ['fal'] }],
  ['only of the key', undefined, { only: ['fal'] }],
  ['zdr of the key', undefined, { zdr: true }],
  ['order of the key', undefined, { order: ['fal', 'kling'] }],
  ['order of the request among those of the key', { order: ['kling', 'fal'] }, { ignore: ['kling'] }],
]
for (const [title, provider, ofKey] of onlyFal)
  test.serial(`completed at the provider that is permitted, for its price: ${title}`, async t => {
    const account = await gateway.account(ofKey && { provider: ofKey })
    const job = await submit(gateway, path, account.live, { ...body, ...(provider && { provider }) })
    t.is(job.cost_usd, usd.fal)
    t.is(await start(job.id), null)
    t.deepEqual([creates(kling), creates(fal)], [0, 1])
    fal.finish()
    t.is(await finishJob(gateway.services, job.id), null)
    t.like(await shown(account.live, job.id), { status: 'completed', provider: 'fal', cost_usd: usd.fal })
    t.deepEqual(await booked(gateway, job.id), [-usd.fal])
    t.deepEqual(await gateway.settled(), [])
  })

test.serial('completed at the first provider of the model without preferences', async t => {
  const account = await gateway.account()
  const job = await submit(gateway, path, account.live, body)
  t.is(job.cost_usd, usd.kling)
  t.is(await start(job.id), null)
  t.deepEqual([creates(kling), creates(fal)], [1, 0])
})

test.serial('completed with the own key of the permitted provider, not with that of another one', async t => {
  const account = await gateway.account({ usd: '0' })
  const { providerKeys } = gateway.services
  for (const [provider, secret] of [
    ['kling', 'mine:secret'],
    ['fal', 'mine:secret'],
  ] as const)
    await providerKeys.create(account.organisationId, { provider, name: provider, secret }, operatorActor)
  const key = await gateway.key(account.organisationId, 'live', { own_keys: 'own' })
  const only = { ...body, provider: { only: ['fal'] } }
  const job = await submit(gateway, path, key, only)
  t.is(await start(job.id), null)
  t.deepEqual([creates(kling), creates(fal)], [0, 1])
  const waiting = await submit(gateway, path, key, only)
  await gateway.services.db.providerKey.deleteMany({ where: { provider: 'fal' } })
  t.is(await start(waiting.id), null)
  t.like(await shown(key, waiting.id), { status: 'failed', error: { code: 'own_key_refused' } })
  t.is(creates(kling), 0)
})

test.serial(
  'failed and refunded when the key excludes by now every provider that the job was submitted for',
  async t => {
    const account = await gateway.account()
    const job = await submit(gateway, path, account.live, { ...body, provider: { only: ['kling'] } })
    await patchKey(gateway.services, account.live, { provider: { ignore: ['kling'] } })
    t.is(await start(job.id), null)
    const failed = await shown(account.live, job.id)
    t.like(failed, { status: 'failed', cost_usd: 0, error: { code: 'model_not_allowed' } })
    t.regex(failed.error.message, /`provider.ignore` excludes `kling`/)
    t.deepEqual([creates(kling), creates(fal)], [0, 0])
    t.deepEqual(await booked(gateway, job.id), [-usd.kling, usd.kling])
    t.deepEqual(await gateway.settled(), [])
  },
)

test.serial('in_progress at another provider when the key excludes the first one by now', async t => {
  const account = await gateway.account()
  const job = await submit(gateway, path, account.live, body)
  await patchKey(gateway.services, account.live, { provider: { ignore: ['kling'] } })
  t.is(await start(job.id), null)
  t.deepEqual([creates(kling), creates(fal)], [0, 1])
  t.is((await rowOf(gateway, job.id)).provider, 'fal')
})

test.serial('completed where it was started, although the key has excluded that provider since', async t => {
  const account = await gateway.account()
  const job = await submit(gateway, path, account.live, body)
  t.is(await start(job.id), null)
  await patchKey(gateway.services, account.live, { provider: { ignore: ['kling'] } })
  kling.finish()
  t.is(await finishJob(gateway.services, job.id), null)
  t.like(await shown(account.live, job.id), { status: 'completed', provider: 'kling', cost_usd: usd.kling })
  t.is(creates(fal), 0)
})

/** The worker dies between the claim of a start and its request. */
async function loseStart(id: string) {
  await gateway.services.jobs.claimStart(id, 'kling', null)
  await gateway.services.db.job.update({ where: { id }, data: { claimedUntil: new Date(0), openStarts: 0 } })
}

test.serial('in_progress at the permitted provider after its worker died', async t => {
  const account = await gateway.account()
  const job = await submit(gateway, path, account.live, { ...body, provider: { only: ['kling'] } })
  await loseStart(job.id)
  t.is(await start(job.id), null)
  t.deepEqual([creates(kling), creates(fal)], [1, 0])
})

test.serial(
  'in_progress at another provider after its worker died, when the key excludes the first one by now',
  async t => {
    const account = await gateway.account()
    const job = await submit(gateway, path, account.live, { ...body, provider: { order: ['kling', 'fal'] } })
    await loseStart(job.id)
    await patchKey(gateway.services, account.live, { provider: { ignore: ['kling'] } })
    t.true((await start(job.id))! > 0)
    t.is((await rowOf(gateway, job.id)).stage, 'waiting')
    t.is(await start(job.id), null)
    t.deepEqual([creates(kling), creates(fal)], [0, 1])
  },
)

test.serial('in_progress: a job that the previous release stored without its providers', async t => {
  const account = await gateway.account()
  const job = await submit(gateway, path, account.live, { ...body, provider: { order: ['kling'] } })
  await setProviders(job.id, input => delete input.providers)
  t.is(await start(job.id), null)
  t.deepEqual([creates(kling), creates(fal)], [1, 0])
})

test.serial('failed and refunded when no permitted provider serves the model any more', async t => {
  const account = await gateway.account()
  const job = await submit(gateway, path, account.live, { ...body, provider: { only: ['fal'] } })
  await setProviders(job.id, input => {
    input.providers = ['fal-of-yesterday']
  })
  t.is(await start(job.id), null)
  const failed = await shown(account.live, job.id)
  t.like(failed, { status: 'failed', cost_usd: 0, error: { code: 'no_provider_available' } })
  t.regex(failed.error.message, /`fal-of-yesterday`/)
  t.deepEqual([creates(kling), creates(fal)], [0, 0])
  t.deepEqual(await booked(gateway, job.id), [-usd.fal, usd.fal])
})

const swap = async () => ({
  model: 'two-swaps',
  video_url: await clip(10),
  face_image_url: image,
  source_face_consent: true,
})
/** 600 credits for these 10 s at magic_hour, 100 at akool; and the 11 of its invoice. */
const swapUsd = { hold: 1.05, atAkool: 0.1155, holdAtMagicHour: 0.567 }

test.serial('completed for the invoice of the second provider: the hold covers the dearest one', async t => {
  const account = await gateway.account()
  const job = await submit(gateway, '/v1/face-swap', account.live, await swap())
  t.is((await wallet(gateway, account)).reserved_usd, swapUsd.hold)
  magicHour.emulator.next(magicHourError(401, 'Unauthorized'), magicHourError(401, 'Unauthorized'))
  t.is(await start(job.id), null)
  t.is((await rowOf(gateway, job.id)).provider, 'akool')
  akool.finish()
  t.is(await finishJob(gateway.services, job.id), null)
  t.is(Number((await rowOf(gateway, job.id)).costNano), swapUsd.atAkool * 1e9)
  t.deepEqual(await booked(gateway, job.id), [-swapUsd.atAkool])
  t.deepEqual(await gateway.settled(), [])
})

test.serial('cancelled for what was held for the second provider, which had begun it', async t => {
  const account = await gateway.account()
  const provider = { order: ['akool', 'magic_hour'] }
  const job = await submit(gateway, '/v1/face-swap', account.live, { ...(await swap()), provider })
  t.is((await wallet(gateway, account)).reserved_usd, swapUsd.hold)
  akool.emulator.next(akoolError(1101, 'Invalid authorization'))
  t.is(await start(job.id), null)
  t.is((await rowOf(gateway, job.id)).provider, 'magic_hour')
  const cancelled = await gateway.fetch(`/v1/face-swap/${job.id}/cancel`, { key: account.live, method: 'POST' })
  t.like(await answerOf(cancelled), { status: 'cancelled', cost_usd: swapUsd.holdAtMagicHour })
  t.deepEqual(await booked(gateway, job.id), [-swapUsd.holdAtMagicHour])
  t.deepEqual(await gateway.settled(), [])
})

test.serial('queued with the hold of the permitted provider alone', async t => {
  const account = await gateway.account()
  await submit(gateway, '/v1/face-swap', account.live, { ...(await swap()), provider: { only: ['magic_hour'] } })
  t.is((await wallet(gateway, account)).reserved_usd, swapUsd.holdAtMagicHour)
})

// These make a provider rest, so that they are last.
for (const [title, provider, other] of [
  ['only', { only: ['fal'] }, kling],
  ['ignore', { ignore: ['kling'] }, kling],
] as const)
  test.serial(`failed and refunded when the permitted provider refuses it, without another one: ${title}`, async t => {
    const account = await gateway.account()
    fal.emulator.next(json(401, { detail: 'Invalid API key' }))
    const job = await submit(gateway, path, account.live, { ...body, provider })
    t.is(await start(job.id), null)
    t.like(await shown(account.live, job.id), { status: 'failed', cost_usd: 0 })
    t.is(creates(other), 0)
    t.deepEqual(await booked(gateway, job.id), [-usd.fal, usd.fal])
    t.deepEqual(await gateway.settled(), [])
  })

test.serial('failed without a second provider when fallbacks are not allowed', async t => {
  const account = await gateway.account()
  kling.emulator.next(klingError(401, 1002, 'Authorization is invalid'))
  const job = await submit(gateway, path, account.live, { ...body, provider: { allow_fallbacks: false } })
  t.is(await start(job.id), null)
  t.like(await shown(account.live, job.id), { status: 'failed', cost_usd: 0 })
  t.is(creates(fal), 0)
})
