import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { z } from 'zod'
import { avatar, catalogPage, voice } from '../../api/schemas/jobs.ts'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { json, reset } from '../emulators/emulator.ts'
import { heygenError, startHeygen } from '../emulators/heygen.ts'
import { answersError } from '../support/api/edge.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { useFolder, useStores } from '../support/use.ts'

const minuteMs = 60_000
const secret = 'secret-key-of-the-gateway'
const folder = useFolder(test)
/** Time of every gateway here stands still until a test moves it. */
const clock = { nowMs: Date.now(), now: () => clock.nowMs }

const stores = useStores(test)

type Emulator = Awaited<ReturnType<typeof startHeygen>>
type World = { gateway: Gateway; live: string; test: string; first: Emulator; second: Emulator; asked(): number }

/** A gateway with two providers of avatars, the second one the operator's own. */
async function opened(t: ExecutionContext): Promise<World> {
  const [first, second] = [await startHeygen(), await startHeygen()]
  const shipped = loadCatalog()
  const { providers, ...row } = [...shipped.models.values()].find(
    ({ type, disabled }) => type === 'avatar' && !disabled,
  )!
  const provider = { ...shipped.providers.get(providers[0]!.provider)!, name: 'ours', base_url: 'https://ours.example' }
  const model = { ...row, id: 'our-avatar', providers: [{ ...providers[0]!, provider: 'ours' }] }
  const file = join(folder, 'catalog.json')
  await writeFile(file, JSON.stringify({ providers: [provider], models: [model] }))
  const env = {
    MODEL_CATALOG: file,
    HEYGEN_API_KEY: secret,
    HEYGEN_BASE_URL: first.url,
    OURS_API_KEY: secret,
    OURS_BASE_URL: second.url,
    ALLOW_PRIVATE_URLS: 'true',
  }
  const gateway = await startGateway(stores, env, clock)
  await gateway.services.redis.flushdb()
  const account = await gateway.account({ usd: '0' })
  t.teardown(async () => {
    await gateway.close()
    await Promise.all([first.close(), second.close()])
  })
  const asked = () => first.emulator.requests.length + second.emulator.requests.length
  return { gateway, live: account.live, test: account.test, first, second, asked }
}

const schemas = { avatars: catalogPage(avatar, 'AvatarList'), voices: catalogPage(voice, 'VoiceList') }
type Page<K extends keyof typeof schemas> = z.output<(typeof schemas)[K]>
const paths = { avatars: '/v1/avatars', voices: '/v1/avatars/voices' }

async function list<K extends keyof typeof schemas>(
  gateway: Gateway,
  key: string,
  what: K,
  query: Record<string, string> = {},
): Promise<Page<K>> {
  const response = await gateway.fetch(`${paths[what]}?${new URLSearchParams(query)}`, { key })
  const text = await response.text()
  if (response.status !== 200) throw new Error(text)
  return schemas[what].parse(JSON.parse(text)) as Page<K>
}

/** Every page, one after the other. */
async function whole<K extends keyof typeof schemas>(
  gateway: Gateway,
  key: string,
  what: K,
  query: Record<string, string>,
) {
  const pages: Page<K>[] = []
  for (let token: string | null = ''; token !== null && pages.length < 50; ) {
    const page: Page<K> = await list(gateway, key, what, { ...query, ...(token && { next_token: token }) })
    if (page.has_more !== (page.next_token !== null)) throw new Error('has_more and next_token differ')
    pages.push(page)
    token = page.next_token
  }
  return { pages, ids: pages.flatMap(({ data }) => data.map(({ id }) => id)) }
}

test.serial(
  '200 with a dozen avatars of three types and twenty voices for a test key, without any provider',
  async t => {
    const { gateway, test: key, asked } = await opened(t)
    const avatars = await whole(gateway, key, 'avatars', { limit: '5' })
    t.deepEqual(
      avatars.pages.map(({ data }) => data.length),
      [5, 5, 2],
    )
    t.is(new Set(avatars.ids).size, 12)
    const types = new Set(avatars.pages.flatMap(({ data }) => data.map(({ type }) => type)))
    t.is(types.size, 3)
    for (const type of types) {
      const { data } = await list(gateway, key, 'avatars', { type })
      t.true(data.length > 0 && data.every(row => row.type === type))
    }
    const voices = await whole(gateway, key, 'voices', { limit: '7' })
    t.is(new Set(voices.ids).size, 20)
    const german = await list(gateway, key, 'voices', { language: 'german' })
    t.true(german.data.length > 0 && german.data.every(({ language }) => language === 'German'))
    const defaults = avatars.pages.flatMap(({ data }) => data.map(row => row.default_voice_id!))
    t.true(defaults.every(id => voices.ids.includes(id)))
    t.is(asked(), 0)
  },
)

test.serial('200 page by page through every provider for a live key', async t => {
  const { gateway, live, first, second } = await opened(t)
  const avatars = await whole(gateway, live, 'avatars', { limit: '2' })
  // Of five looks each, one is still in the making.
  const looks = ['look_0', 'look_1', 'look_2', 'look_4']
  t.deepEqual(avatars.ids, [...looks, ...looks])
  t.deepEqual(avatars.pages[0]!.data[0], {
    id: 'look_0',
    object: 'avatar',
    name: 'Look 0',
    type: 'studio_avatar',
    gender: null,
    preview_image_url: 'https://files.example/look_0.webp',
    preview_video_url: null,
    default_voice_id: 'voice_0',
  })
  const voices = await whole(gateway, live, 'voices', { language: 'English' })
  t.deepEqual(voices.ids, ['voice_0', 'voice_1', 'voice_0', 'voice_1'])
  for (const { emulator } of [first, second])
    for (const { headers } of emulator.requests) t.is(headers['x-api-key'], secret)
})

test.serial(
  '200 with the lists of the own account first, which are never kept; 403 when its key is refused',
  async t => {
    const { gateway, first, second, live: shared } = await opened(t)
    const { organisationId } = await gateway.account({ usd: '0' })
    const own = { provider: 'heygen', name: 'Mine', secret: 'own-secret-0123456789' }
    const { id } = await gateway.services.providerKeys.create(organisationId, own, operatorActor)
    const [alone, both] = await Promise.all(
      (['own', 'own_then_shared'] as const).map(own_keys => gateway.key(organisationId, 'live', { own_keys })),
    )
    await list(gateway, shared, 'avatars')
    for (const emulator of [first.emulator, second.emulator]) emulator.reset()
    const keysAsked = () =>
      [first, second].map(({ emulator }) => emulator.requests.map(({ headers }) => headers['x-api-key']))
    await whole(gateway, alone!, 'avatars', {})
    await list(gateway, alone!, 'voices')
    const [ours, others] = keysAsked()
    t.deepEqual([...new Set(ours)], [own.secret])
    t.deepEqual(others, [])
    const { ids } = await whole(gateway, both!, 'voices', {})
    t.is(ids.length, 9)
    t.deepEqual((await gateway.services.redis.keys('catalog:*')).toSorted(), [
      'catalog:avatars:heygen',
      'catalog:voices:heygen',
      'catalog:voices:ours',
    ])
    first.emulator.next(heygenError(401, 'unauthorized', `The key ${own.secret} is not valid`))
    const error = await answersError(t, await gateway.fetch('/v1/avatars', { key: alone! }), 'own_key_refused')
    t.regex(error.message, new RegExp(id))
    t.false(JSON.stringify(error).includes(own.secret))
  },
)

test.serial('200 from the cache for ten minutes, each query for itself', async t => {
  const { gateway, live, asked } = await opened(t)
  const page = await list(gateway, live, 'avatars')
  t.is(asked(), 1)
  clock.nowMs += 10 * minuteMs - 1
  t.deepEqual(await list(gateway, live, 'avatars'), page)
  t.is(asked(), 1)
  const queries: Record<string, string>[] = [{ type: 'photo_avatar' }, { limit: '3' }, { next_token: page.next_token! }]
  for (const query of queries) await list(gateway, live, 'avatars', query)
  await list(gateway, live, 'voices')
  t.is(asked(), 5)
  clock.nowMs += 1
  await list(gateway, live, 'avatars')
  t.is(asked(), 6)
})

test.serial('200 with the page kept for a day while the provider is away, then 502', async t => {
  const { gateway, live, first, asked } = await opened(t)
  const page = await list(gateway, live, 'avatars')
  clock.nowMs += 11 * minuteMs
  for (const reply of [
    reset,
    json(500, { message: 'down' }),
    json(200, 'hello'),
    heygenError(401, 'unauthorized', 'No'),
  ]) {
    first.emulator.next(reply)
    t.deepEqual(await list(gateway, live, 'avatars'), page)
  }
  t.is(asked(), 5)
  clock.nowMs += 24 * 60 * minuteMs
  first.emulator.next(reset)
  await answersError(t, await gateway.fetch('/v1/avatars', { key: live }), 'upstream_error')
  t.deepEqual(await list(gateway, live, 'avatars'), page)
})

test.serial('502 with who failed and why, without secrets, when nothing is kept', async t => {
  const { gateway, live, first } = await opened(t)
  first.emulator.next(heygenError(401, 'unauthorized', `The key ${secret} is not valid`))
  const error = await answersError(t, await gateway.fetch('/v1/avatars', { key: live }), 'upstream_error')
  t.deepEqual(error.metadata, { attempts: [{ provider: 'heygen', status: 401, reason: 'auth' }] })
  t.false(JSON.stringify(error).includes(secret))
  t.false(JSON.stringify(error).includes(first.url))
})

test.serial('200 however many queries are kept: the cache of a provider is bounded', async t => {
  const { gateway, live } = await opened(t)
  const key = await gateway.key((await gateway.account({ usd: '0' })).organisationId, 'live', { rpm_limit: null })
  for (let limit = 1; limit <= 100; limit++) {
    await list(gateway, key, 'voices', { limit: String(limit) })
    for (const language of ['German', 'English']) await list(gateway, key, 'voices', { limit: String(limit), language })
  }
  const kept = await gateway.services.redis.hlen('catalog:voices:heygen')
  t.true(kept > 0 && kept <= 200, `${kept} pages`)
  t.true((await gateway.services.redis.pttl('catalog:voices:heygen')) > 0)
  t.is((await list(gateway, live, 'voices')).data.length, 3)
})

test.serial('200 with an empty list when no provider of avatars is configured', async t => {
  const gateway = await startGateway(stores, {}, clock)
  t.teardown(() => gateway.close())
  const { live } = await gateway.account({ usd: '0' })
  t.deepEqual(await list(gateway, live, 'avatars'), { object: 'list', data: [], has_more: false, next_token: null })
})

test.serial('400 naming the field of a bad query', async t => {
  const { gateway, live, test: key, asked } = await opened(t)
  const token = (...parts: unknown[]) => Buffer.from(JSON.stringify(parts)).toString('base64url')
  const other = [token('nobody', null), token('heygen'), token('heygen', 7), token('heygen', 'x'.repeat(1_001))]
  const bad = [
    'hello',
    Buffer.from('{').toString('base64url'),
    token('sandbox', '-1'),
    ...other,
    '*',
    'A'.repeat(2_001),
  ]
  for (const path of Object.values(paths)) {
    for (const used of [live, key]) {
      for (const wrong of used === live ? bad : [...bad, token('sandbox', '1.5'), token('sandbox', 'NaN')]) {
        const response = await gateway.fetch(`${path}?next_token=${encodeURIComponent(wrong)}`, { key: used })
        await answersError(t, response, 'invalid_request', 'next_token', wrong.slice(0, 50))
      }
      for (const limit of ['0', '101', 'x', '1.5'])
        await answersError(t, await gateway.fetch(`${path}?limit=${limit}`, { key: used }), 'invalid_request', 'limit')
      await answersError(t, await gateway.fetch(`${path}?colour=red`, { key: used }), 'unknown_field', 'colour')
    }
  }
  t.is(asked(), 0)
  // A token of our form that the provider does not know.
  const made = await gateway.fetch(`/v1/avatars?next_token=${token('heygen', 'bm9uc2Vuc2U')}`, { key: live })
  await answersError(t, made, 'invalid_request', 'next_token')
  for (const used of [live, key])
    await answersError(t, await gateway.fetch('/v1/avatars?type=robot', { key: used }), 'invalid_request', 'type')
})

test.serial('401 without a key, and 429 past its requests a minute', async t => {
  const { gateway } = await opened(t)
  const { organisationId } = await gateway.account({ usd: '0' })
  const key = await gateway.key(organisationId, 'test', { rpm_limit: 1 })
  for (const path of Object.values(paths)) await answersError(t, await gateway.fetch(path), 'missing_api_key')
  await list(gateway, key, 'avatars')
  await answersError(t, await gateway.fetch('/v1/avatars/voices', { key }), 'rate_limit_exceeded')
})
