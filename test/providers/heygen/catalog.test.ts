import { GatewayError } from '../../../shared/base/errors.ts'
import { heygen } from '../../../shared/providers/adapters/heygen/protocol.ts'
import type { CatalogPage } from '../../../shared/providers/avatar-catalog.ts'
import type { ProviderConnection } from '../../../shared/providers/contract.ts'
import { ProviderError } from '../../../shared/providers/provider-error.ts'
import { json } from '../../emulators/emulator.ts'
import { startHeygen } from '../../emulators/heygen.ts'
import { connectionTo } from '../../support/jobs/queued-adapter.ts'
import { test } from '../../support/test.ts'

const { avatars, voices } = heygen.catalog!

async function world(t: { teardown(fn: () => Promise<void>): void }) {
  const { emulator, close } = await startHeygen()
  t.teardown(close)
  return { emulator, connection: connectionTo('heygen', heygen, emulator.url) }
}

/** All pages, at most ten. */
async function allOf<Row>(page: (token: string | null) => Promise<CatalogPage<Row>>): Promise<Row[][]> {
  const pages: Row[][] = []
  let token: string | null = null
  for (let i = 0; i < 10; i++) {
    const { data, nextToken } = await page(token)
    pages.push(data)
    if (nextToken === null) return pages
    token = nextToken
  }
  return pages
}

test('avatars: page by page, without those in the making', async t => {
  const { connection } = await world(t)
  const pages = await allOf(token => avatars({ token, limit: 2 }, connection))
  t.deepEqual(
    pages.map(page => page.map(({ id }) => id)),
    [['look_0', 'look_1'], ['look_2'], ['look_4']],
  )
  t.deepEqual(pages[0]![0], {
    id: 'look_0',
    name: 'Look 0',
    type: 'studio_avatar',
    gender: null,
    preview_image_url: 'https://files.example/look_0.webp',
    preview_video_url: null,
    default_voice_id: 'voice_0',
  })
})

test('avatars: by type, in pages no larger than the provider gives', async t => {
  const { emulator, connection } = await world(t)
  const { data, nextToken } = await avatars({ type: 'photo_avatar', token: null, limit: 100 }, connection)
  t.deepEqual(
    data.map(({ id, type }) => [id, type]),
    [['look_2', 'photo_avatar']],
  )
  t.is(nextToken, null)
  t.deepEqual(Object.fromEntries(emulator.requests[0]!.query), { limit: '50', avatar_type: 'photo_avatar' })
})

test('400 for a type that there is none of, before anything is sent', async t => {
  const { emulator, connection } = await world(t)
  const error = await t.throwsAsync(avatars({ type: 'cartoon', token: null, limit: 20 }, connection), {
    instanceOf: GatewayError,
  })
  t.is(error!.param, 'type')
  t.is(emulator.requests.length, 0)
})

test('400 of the provider for a token that it did not give', async t => {
  const { connection } = await world(t)
  const error = await t.throwsAsync(voices({ token: 'bogus', limit: 20 }, connection), { instanceOf: ProviderError })
  t.is(error!.reason, 'invalid_request')
})

test('voices: by language, page by page', async t => {
  const { connection } = await world(t)
  const pages = await allOf(token => voices({ language: 'English', token, limit: 1 }, connection))
  t.deepEqual(
    pages.flat().map(({ id, language }) => [id, language]),
    [
      ['voice_0', 'English'],
      ['voice_1', 'English'],
    ],
  )
  t.deepEqual((await voices({ token: null, limit: 100 }, connection)).data[2], {
    id: 'voice_2',
    name: 'Voice 2',
    language: 'German',
    gender: 'female',
    preview_audio_url: 'https://files.example/voice_2.mp3',
  })
})

test('not understood: answers that make no sense', async t => {
  const { emulator, connection } = await world(t)
  const query = { token: null, limit: 20 }
  const wrong: [(connection: ProviderConnection) => Promise<unknown>, unknown][] = [
    [connection => avatars(query, connection), {}],
    [connection => avatars(query, connection), { data: [{ name: 'no id' }], has_more: false }],
    [connection => avatars(query, connection), { data: [], has_more: true, next_token: null }],
    [connection => voices(query, connection), { data: [{ name: 'no id' }, null], has_more: false }],
  ]
  for (const [ask, answer] of wrong) {
    emulator.next(json(200, answer))
    t.like(await t.throwsAsync(ask(connection)), { reason: 'invalid_response' }, JSON.stringify(answer))
  }
})

test('unusable entries are skipped; entries without a name are listed by their id', async t => {
  const { emulator, connection } = await world(t)
  const look = { id: 'a', name: '', avatar_type: 'studio_avatar', preview_image_url: '', gender: '' }
  emulator.next(json(200, { data: [look, { ...look, id: '' }, { id: 'b', name: 'B' }, null], has_more: false }))
  const { data } = await avatars({ token: null, limit: 20 }, connection)
  const nothing = { gender: null, preview_image_url: null, preview_video_url: null, default_voice_id: null }
  t.deepEqual(data, [{ id: 'a', name: 'a', type: 'studio_avatar', ...nothing }])
  emulator.next(json(200, { data: [{ voice_id: 'v' }, { name: 'no id' }], has_more: false }))
  t.deepEqual(
    (await voices({ token: null, limit: 20 }, connection)).data.map(({ id, name }) => [id, name]),
    [['v', 'v']],
  )
})
