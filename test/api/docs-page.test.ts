import test from 'ava'
import { freshStores, type Gateway, startGateway } from '../support/gateway.ts'

let gateway: Gateway
let stores: Awaited<ReturnType<typeof freshStores>>

test.before(async () => {
  stores = await freshStores()
  gateway = await startGateway(stores)
})
test.after.always(async () => {
  await gateway?.close()
  await stores?.drop()
})

test('200 with a reference page that needs no other host', async t => {
  const response = await gateway.fetch('/docs')
  const page = await response.text()
  t.is(response.headers.get('content-security-policy')?.split(';')[0], "default-src 'self'")
  const linked = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link]) => link!)
  t.deepEqual(linked, ['/docs/swagger-ui.css', '/docs/swagger-ui-bundle.js', '/docs/start.js'])
  t.notRegex(page, /https?:|\/\/\w/)
  const types = ['text/css', 'text/javascript', 'text/javascript']
  for (const [i, link] of linked.entries()) {
    const asset = await gateway.fetch(link)
    t.is(asset.status, 200)
    t.is(asset.headers.get('content-type'), `${types[i]}; charset=utf-8`)
    const text = await asset.text()
    t.true(text.length > 50, link)
    if (link.endsWith('.css')) t.notRegex(text, /@import|url\((?!['"]?data:)/)
    if (link === '/docs/start.js') t.regex(text, /url: '\/openapi\.json'.*validatorUrl: null/)
  }
})
