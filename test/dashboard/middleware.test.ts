// What serves the dashboard's files: its headers, odd addresses, and readers who leave.
import { readdirSync, statSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { builtPages } from '../../api/dashboard/middleware.ts'
import { errorCode } from '../support/dashboard/dashboard.ts'
import { eventually, startGateway } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { useGateway, useStores } from '../support/use.ts'

const stores = useStores(test)
const gateway = useGateway(test, {}, { stores })

const assets = join(builtPages, 'assets')
const get = (path: string, headers: Record<string, string> = {}) => fetch(gateway.url + path, { headers })

/** What the gateway answers to bytes that no client of ours would send. */
function raw(text: string): Promise<string> {
  const { port, hostname } = new URL(gateway.url)
  return new Promise((resolve, reject) => {
    let got = ''
    const socket = connect(Number(port), hostname, () => socket.write(text))
    socket.on('data', chunk => (got += chunk))
    socket.on('close', () => resolve(got))
    socket.on('error', reject)
  })
}

test.serial('200 with the application at every address of a page: not framed, its scripts from here alone', async t => {
  for (const path of [
    '',
    '/',
    '?x=1',
    '/sign-in',
    '/org_x/assets/keys',
    '/x/assets/y',
    '/%zz',
    '/..%2f..%2fpackage.json',
  ]) {
    const response = await get(`/dashboard${path}`)
    t.is(response.status, 200, path)
    t.is(response.headers.get('content-type'), 'text/html;charset=utf-8', path)
    t.is(response.headers.get('cache-control'), 'no-cache', path)
    t.is(response.headers.get('x-frame-options'), 'DENY', path)
    const policy = response.headers.get('content-security-policy')!
    t.regex(policy, /(?:^|; )script-src 'self' 'wasm-unsafe-eval'(?:;|$)/, path)
    t.regex(policy, /frame-ancestors 'none'/, path)
    t.is(response.headers.get('x-content-type-options'), 'nosniff', path)
  }
})

test.serial(
  'what every page waits for is below 300 kB, beside React, and holds nothing of the pages behind the sign-in',
  async t => {
    const html = await (await get('/dashboard/sign-in')).text()
    const names = [...html.matchAll(/assets\/([\w.-]+\.js)/g)].map(([, name]) => name!)
    const [react, ...others] = [...new Set(names)].sort(
      (a, b) => Number(b.startsWith('react-')) - Number(a.startsWith('react-')),
    )
    t.regex(react!, /^react-/)
    const kilobytes = others.reduce((sum, name) => sum + statSync(join(assets, name)).size / 1_000, 0)
    t.log(others, kilobytes)
    t.true(kilobytes < 300, `${kilobytes} kB`)
    for (const name of others) t.false((await readFile(join(assets, name), 'utf8')).includes('Skip to content'), name)
  },
)

test.serial('the document of a page names its scripts, the person and its first data', async t => {
  const linked = async (path: string) => {
    const header = (await get(`/dashboard${path}`)).headers.get('link') ?? ''
    return [...header.matchAll(/<([^>]+)>; rel=(\w+)/g)].map(([, url, kind]) => ({ url: url!, kind: kind! }))
  }
  const data = (links: { url: string }[]) => links.map(({ url }) => url).filter(url => url.includes('/api/'))
  const requests = await linked('/org_x/requests')
  t.deepEqual(data(requests).slice(0, 2), [
    '/dashboard/api/me',
    '/dashboard/api/organisations/org_x/requests?span=30d&limit=50',
  ])
  const scripts = requests.filter(({ kind }) => kind === 'modulepreload')
  t.true(scripts.length > 5)
  for (const { url } of scripts) t.is((await get(url)).status, 200, url)
  const first = async (path: string) => data(await linked(path)).slice(1)
  const place = '/dashboard/api/organisations/org_x'
  t.deepEqual(await first('/org_x/jobs/job_1'), [`${place}/jobs/job_1`])
  const month = new Date(gateway.services.clock.now()).toISOString().slice(0, 7)
  t.true((await first('/org_x/billing'))[1]!.startsWith(`${place}/billing/totals?from=${month}-01&to=${month}-`))
  // In the operator area, from the routes of operators: what they see of an organisation as well.
  t.deepEqual(await first('/operator/audit'), ['/dashboard/api/operator/audit?limit=50'])
  const seen = '/dashboard/api/operator/organisations/org_x'
  t.deepEqual(await first('/operator/organisations/org_x'), [seen])
  t.deepEqual(await first('/operator/organisations/org_x/jobs/job_1/more'), [seen])
  t.deepEqual(
    (await first('/operator/organisations/org_x/keys')).map(url => url.slice(seen.length)),
    ['', '/keys?limit=50&include_revoked=false'],
  )
  // What is read depends on the filters, or on who is signed in.
  for (const path of ['/org_x/requests?status=ok', '/org_x/requests/req_1/more', '/account/x', '/', '/org_x'])
    t.deepEqual(data(await linked(path)), ['/dashboard/api/me'], path)
  for (const path of ['/sign-in', '/sign-up', '/invitations/x', '/outbox']) {
    const links = await linked(path)
    t.deepEqual([data(links), links.length > 0], [[], true], path)
  }
  for (const path of [
    '/%3E%2C%3Cx/requests',
    '/a%0d%0ab/requests',
    '/constructor/__proto__',
    '/x/constructor',
    '/operator/constructor',
  ])
    t.deepEqual(data(await linked(path)), ['/dashboard/api/me'], path)
})

test.serial('200 and kept for good for an asset, 404 for one that is not there, JSON for unknown routes', async t => {
  const name = readdirSync(assets).find(file => file.endsWith('.js'))
  t.is((await get(`/dashboard/assets/${name}`)).headers.get('cache-control'), 'public, max-age=31536000, immutable')
  for (const path of ['gone.js', 'gone', 'x/y']) {
    const response = await get(`/dashboard/assets/${path}`)
    t.deepEqual([response.status, response.headers.get('cache-control')], [404, null], path)
  }
  for (const path of ['/dashboard/api/unknown', '/dashboard/api/auth', '/dashboard/api/auth/unknown'])
    t.is(await errorCode(await get(path)), 'not_found', path)
})

test.serial('200 with the whole page for any range, 400 for a Host that is none', async t => {
  for (const range of ['bytes=10-5', 'bytes=0-1', 'bytes=x', 'bytes=999999999-']) {
    const response = await get('/dashboard/', { range })
    t.is(response.status, 200, range)
    t.regex(await response.text(), /<\/html>\s*$/, range)
  }
  const refused = await raw('GET /dashboard/api/auth/get-session HTTP/1.1\r\nHost: ][\r\nConnection: close\r\n\r\n')
  t.regex(refused, /^HTTP\/1\.1 400 /)
})

test.serial('a file that is gone since the start breaks off its answer and nothing else', async t => {
  const file = join(builtPages, `gone-${process.pid}.txt`)
  await writeFile(file, 'x')
  t.teardown(() => rm(file, { force: true }))
  const later = await startGateway(stores)
  t.teardown(() => later.close())
  await rm(file)
  await t.throwsAsync(fetch(`${later.url}/dashboard/gone-${process.pid}.txt`))
  t.is((await fetch(`${later.url}/dashboard/`)).status, 200)
})

test.serial('no file stays open after its reader has left', async t => {
  const { port, hostname } = new URL(gateway.url)
  const largest = readdirSync(assets).find(file => /^mesh-viewer.*\.js$/.test(file))
  const open = () => readdirSync('/proc/self/fd').length
  const before = open()
  const sockets = Array.from({ length: 20 }, () => {
    const socket = connect(Number(port), hostname).pause()
    socket.write(`GET /dashboard/assets/${largest} HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(5))
    return socket
  })
  // Each connection has two descriptors in this process.
  await eventually(() => open() > before + 2 * sockets.length + 50, 'the files are open')
  for (const socket of sockets) socket.destroy()
  await eventually(() => open() <= before + 5, 'the files are closed')
  t.pass()
})
