import { globSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import MiniSearch from 'minisearch'
import { builtDocs } from '../../../api/docs-site/middleware.ts'
import { searchRanking } from '../../../docs/.vitepress/theme/search-ranking.ts'
import { errorCodes } from '../../../shared/base/errors.ts'
import { rawCall } from '../../support/api/edge.ts'
import { createAccount } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { useGateway } from '../../support/use.ts'

/** The documentation as the gateway serves it. */

const docs = join(import.meta.dirname, '../../../docs')

const gateway = useGateway(test)

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(gateway.url + path, { headers, redirect: 'manual' })

test('HEAD answers as GET does, without a body', async t => {
  const { status, body, headers } = await rawCall(gateway.url, { method: 'HEAD', path: '/docs/' })
  t.deepEqual([status, body], [200, ''])
  t.true(Number(headers['content-length']) > 0)
})

test('every page of docs/ is a page of the site, in its sidebar, and no link within the site is broken', async t => {
  const names = readdirSync(docs).filter(name => name.endsWith('.md'))
  const home = await (await get('/docs/')).text()
  const seen = new Set<string>()
  const wanted = ['/docs/']
  for (const name of names) {
    const path = name === 'index.md' ? '/docs/' : `/docs/${name.slice(0, -3)}`
    wanted.push(path)
    t.true(home.includes(`href="${path}"`), `${name} has no place in the sidebar of docs/.vitepress/config.ts`)
  }
  while (wanted.length > 0) {
    const path = wanted.pop()!
    if (seen.has(path)) continue
    seen.add(path)
    const response = await get(path)
    t.is(response.status, 200, path)
    const html = await response.text()
    if (!response.headers.get('content-type')?.startsWith('text/html')) continue
    t.regex(html, /<title>[^<]+<\/title>/, path)
    for (const [, href] of html.matchAll(/(?:href|src)="(\/docs\/[^"#]*)/g)) wanted.push(href!)
  }
  t.true(seen.size > 80, String(seen.size))
})

test('every code of an error is an anchor of the page of errors', async t => {
  const html = await (await get('/docs/errors')).text()
  for (const code of errorCodes) t.true(html.includes(`<tr id="${code}"`), code)
})

test('pages are compressed, and revalidated; hashed assets are kept for ever', async t => {
  const page = await get('/docs/routing', { 'accept-encoding': 'br' })
  t.is(page.headers.get('content-encoding'), 'br')
  t.is(page.headers.get('cache-control'), 'no-cache')
  t.regex(page.headers.get('content-security-policy')!, /^default-src 'self'; script-src 'self' 'sha256-/)
  const html = await page.text()
  const asset = await get(/src="(\/docs\/assets\/app[^"]+\.js)"/.exec(html)![1]!)
  t.regex(asset.headers.get('cache-control')!, /immutable/)
  await asset.arrayBuffer()
  const again = await get('/docs/routing', { 'accept-encoding': 'br', 'if-none-match': page.headers.get('etag')! })
  t.is(again.status, 304)
})

test('JSON that is read is compressed as the client asks', async t => {
  const account = await createAccount(gateway.services)
  const authorization = `Bearer ${account.test}`
  for (const path of ['/openapi.json', '/v1/models']) {
    const plain = await get(path, { authorization, 'accept-encoding': 'identity' })
    t.is(plain.status, 200)
    t.is(plain.headers.get('content-encoding'), null)
    const document = await plain.text()
    for (const encoding of ['br', 'gzip']) {
      const response = await get(path, { authorization, 'accept-encoding': encoding })
      t.is(response.headers.get('content-encoding'), encoding)
      t.regex(response.headers.get('vary')!, /accept-encoding/i)
      t.is(await response.text(), document)
    }
  }
  const small = await get('/healthz', { 'accept-encoding': 'gzip' })
  t.is(small.headers.get('content-encoding'), null)
  await small.arrayBuffer()
})

test('lists and texts for language models', async t => {
  for (const path of ['/llms.txt', '/docs/llms.txt']) {
    const list = await (await get(path)).text()
    t.regex(list, /^# Headgate\n\n> /)
    t.regex(list, /- \[Webhooks\]\(\/docs\/webhooks\.md\): \w/)
    for (const [, href] of list.matchAll(/\]\((\/[^)]+)\)/g)) t.is((await get(href!)).status, 200, href)
  }
  const markdown = await get('/docs/webhooks.md')
  t.is(markdown.headers.get('content-type'), 'text/markdown; charset=utf-8')
  t.regex(await markdown.text(), /^# Webhooks/)
  t.true((await (await get('/llms-full.txt')).text()).includes('# Webhooks'))
})

test('404 with a page of the site for browsers, JSON for parts of a page', async t => {
  const accept = 'text/html,application/xhtml+xml,*/*;q=0.8'
  const page = await get('/docs/nowhere', { accept })
  t.is(page.status, 404)
  t.is(page.headers.get('content-type'), 'text/html; charset=utf-8')
  t.is(page.headers.get('cache-control'), 'no-cache')
  t.regex(page.headers.get('content-security-policy')!, /^default-src 'self'/)
  const html = await page.text()
  t.regex(html, /<title>404[^<]*<\/title>/)
  // Its script renders the site’s header with the search.
  t.is((await get(/src="(\/docs\/assets\/app[^"]+\.js)"/.exec(html)![1]!)).status, 200)
  const head = await fetch(`${gateway.url}/docs/nowhere`, { method: 'HEAD', headers: { accept } })
  t.deepEqual([head.status, await head.text()], [404, ''])
  const asset = await get('/docs/assets/none.js', { accept })
  t.deepEqual([asset.status, asset.headers.get('content-type')], [404, 'application/json; charset=utf-8'])
})

test('the search finds guides before decisions, also by words that the pages do not use', async t => {
  const [chunk] = globSync('assets/chunks/@localSearchIndexroot.*.js', { cwd: builtDocs })
  const { default: index } = (await import(join(builtDocs, chunk!))) as { default: string }
  const search = MiniSearch.loadJSON(index, {
    fields: ['title', 'titles', 'text'],
    storeFields: ['title', 'titles'],
    // The boosts of the fields are the theme’s own.
    searchOptions: { boost: { title: 4, text: 2, titles: 1 }, ...searchRanking },
  })
  const found = (query: string) => search.search(query).map(({ id }) => String(id))
  for (const [query, page] of [
    ['spend cap', 'keys-and-limits'],
    ['rotate key', 'keys-and-limits'],
    ['rotate secret', 'keys-and-limits'],
    ['budget', 'keys-and-limits'],
    ['spending limit', 'keys-and-limits'],
    ['quota', 'keys-and-limits'],
    ['rate limit', 'keys-and-limits'],
    ['webhook signature', 'webhooks'],
    ['fallback', 'routing'],
    ['tts', 'audio'],
    ['kubernetes', 'deployment'],
    ['insufficient_credits', 'errors'],
  ] as const) {
    const first = found(query).slice(0, 3)
    t.true(
      first.some(id => id.startsWith(`/docs/${page}`)),
      `${query}: ${found(query).slice(0, 6).join(' ')}`,
    )
    t.false(first[0]!.includes('/decisions/'), `${query}: ${first.join(' ')}`)
  }
  // Reasons are found by their own words.
  t.true(
    found('poison')
      .slice(0, 3)
      .some(id => id.includes('/decisions/poison-work')),
  )
})

test('the API reference has the header of the site', async t => {
  const html = await (await get('/docs/api/')).text()
  for (const href of ['/docs/', '/docs/api/', '/dashboard']) t.true(html.includes(`<a href="${href}"`), href)
})

test('redirects to the folder, 404 for what is not there', async t => {
  for (const path of ['/docs', '/docs/api']) {
    const response = await get(path)
    t.is(response.status, 302)
    t.is(response.headers.get('location'), `${path}/`)
  }
  for (const path of ['/docs/nowhere', '/docs/../package.json', '/docs/..%2fpackage.json', '/docs/assets/none.js']) {
    const response = await get(path)
    t.is(response.status, 404, path)
    t.is(((await response.json()) as { error: { code: string } }).error.code, 'not_found', path)
  }
  const { error } = (await (await get('/docs/nowhere')).json()) as { error: { message: string } }
  t.is(error.message, 'There is no GET /docs/nowhere.')
  t.is((await fetch(`${gateway.url}/docs/`, { method: 'POST' })).status, 404)
})
