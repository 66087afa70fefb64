import { assertPublicUrl, fetchPublic } from '../../shared/io/safe-url.ts'
import { openSsrfWorld } from '../support/io/ssrf.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const limits = { maxBytes: 1000, timeoutMs: 10_000, param: 'image_url' }
const world = use(test, openSsrfWorld)

test('200 from the public part of the world, by address and by name', async t => {
  world.respond = (_request, response) => response.end('public')
  t.is((await fetchPublic(world.url, { ...limits, ...world.door })).bytes.toString(), 'public')
  const named = world.url.replace('127.77.0.1', 'public.test')
  t.is((await fetchPublic(named, { ...limits, ...world.door })).bytes.toString(), 'public')
})

test('url_not_allowed for every forbidden URL, and nothing inside is contacted', async t => {
  for (const { name, url } of world.forbidden) {
    const error = await t.throwsAsync(fetchPublic(url, { ...limits, ...world.door }), undefined, name)
    t.like(error, { code: 'url_not_allowed', status: 400, param: 'image_url' }, name)
    t.false(error?.message.includes('hunter2'), name)
  }
  t.is(world.contacts(), 0)
})

test('url_not_allowed for http, unless private URLs are allowed', async t => {
  const rules = { ...limits, ...world.door, allowHttp: undefined }
  await t.throwsAsync(assertPublicUrl('http://public.test/', rules as never), { message: /must be an https URL/ })
  t.is((await assertPublicUrl('https://public.test/', rules as never)).url.protocol, 'https:')
  t.is((await assertPublicUrl('http://public.test/', { ...world.door, allowPrivate: true })).url.protocol, 'http:')
})
