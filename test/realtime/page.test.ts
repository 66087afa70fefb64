import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Page } from 'playwright-core'
import { call } from '../support/gateway.ts'
import { startBrowser } from '../support/io/chromium.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const html = readFileSync(new URL('../support/realtime/page.html', import.meta.url))
let home: Site
let elsewhere: Site

test.before(async () => {
  const sites = await Promise.all([startSite(), startSite()])
  home = sites[0]
  elsewhere = sites[1]
})
const gateway = useGateway(test, () => ({ REALTIME_ORIGINS: home.origin }))
const account = use(test, () => gateway.account())
const browser = use(test, startBrowser)
test.after.always(async () => {
  for (const site of [home, elsewhere]) site?.close()
})

type Site = { origin: string; close(): void }

/** The server of an application: it has the page, and makes its client secrets. */
async function startSite(): Promise<Site> {
  const server = http.createServer(async (request, response) => {
    if (request.url !== '/secret') return void response.setHeader('content-type', 'text/html').end(html)
    const body = { session: { type: 'realtime', model: 'gpt-realtime-2.1' } }
    const answer = await call(gateway.url, '/v1/realtime/client_secrets', { key: account.test, body })
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = () => {
    server.closeAllConnections()
    server.close()
  }
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close }
}

type Talk = { protocol: string; status: string; said: string; heard: string[]; transcript: string[] }

/** Opens the page of a site, with all that comes in over the network. */
async function visit(site: Site): Promise<{ page: Page; received: string[]; talk(): Promise<Talk> }> {
  const page = await browser.newPage()
  const received: string[] = []
  const network = await page.context().newCDPSession(page)
  await network.send('Network.enable')
  network.on('Network.webSocketHandshakeResponseReceived', ({ response }) => received.push(JSON.stringify(response)))
  page.on('response', async response => {
    received.push(JSON.stringify(response.headers()), await response.text().catch(() => ''))
  })
  page.on('websocket', socket => {
    socket.on('framereceived', ({ payload }) => received.push(payload.toString()))
    socket.on('socketerror', error => received.push(error))
  })
  await page.goto(site.origin)
  const url = `${gateway.url.replace('http', 'ws')}/v1/realtime`
  return { page, received, talk: () => page.evaluate(`talk(${JSON.stringify(url)})`) }
}

test.serial(
  'a page talks to the sandbox with a client secret: its own sound comes back, with a transcript',
  async t => {
    const { page, received, talk } = await visit(home)
    const { protocol, status, said, heard, transcript } = await talk()
    t.is(protocol, 'realtime')
    t.is(status, 'completed')
    const sound = Buffer.concat(heard.map(part => Buffer.from(part, 'base64')))
    t.is(sound.length, 48_000)
    t.true(sound.equals(Buffer.from(said, 'base64')))
    t.is(transcript.length, 1)
    t.not(transcript[0], '')

    const handshakes = received.filter(text => text.includes('Switching Protocols'))
    t.is(handshakes.length, 1)
    t.regex(handshakes[0]!, /"sec-websocket-protocol":"realtime"/i)
    t.regex(handshakes[0]!, /"x-sandbox":"true"/)
    t.true(received.some(text => text.includes('"ek_')))
    t.false(received.some(text => text.includes('svc_sk_')))
    await page.close()
  },
)

test.serial('403 for the page of an origin that is not allowed', async t => {
  const { page, received, talk } = await visit(elsewhere)
  await t.throwsAsync(talk, { message: /closed with 1006/ })
  t.true(received.some(text => /response code: 403/.test(text)))
  await page.close()
})
