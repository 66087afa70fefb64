import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { eventually } from '../gateway.ts'

export type ReadinessProxy = {
  url: string
  /** How many requests it has forwarded to each web process. */
  forwarded: readonly number[]
  close(): Promise<void>
}

const checkEveryMs = 100
const keepAliveMs = 600_000
const checkWithinMs = 5_000

/**
 * A reverse proxy as in front of a deployment: sends each request to the next web process whose `/readyz` answered 200 when it
 * last answered; if none did, as load balancers do, to the one that did last. It never sends a request a second time; one that fails at its web process is a 502.
 */
export async function startReadinessProxy(urls: readonly string[]): Promise<ReadinessProxy> {
  const agent = new http.Agent({ keepAlive: true })
  const ready = urls.map(() => false)
  const readyAtMs = urls.map(() => 0)
  const forwarded = urls.map(() => 0)
  const closing = new AbortController()
  const checks = urls.map(async (url, i) => {
    while (!closing.signal.aborted) {
      ready[i] = (await isReady(url)) ?? ready[i]!
      if (ready[i]) readyAtMs[i] = Date.now()
      await sleep(checkEveryMs)
    }
  })
  let next = 0
  // Longer than any client is idle: a connection that the proxy closes meanwhile fails the request that is just sent over it.
  const server = http.createServer({ keepAliveTimeout: keepAliveMs }, (request, response) => {
    const latest = readyAtMs.indexOf(Math.max(...readyAtMs))
    const target = urls.map((_, i) => (next + i) % urls.length).find(i => ready[i]) ?? latest
    next = target + 1
    forwarded[target]!++
    forward(request, response, urls[target]!, agent)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  await eventually(() => ready.every(Boolean), 'every web process is ready')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    forwarded,
    async close() {
      closing.abort()
      server.closeAllConnections()
      server.close()
      await Promise.all([once(server, 'close'), ...checks])
      agent.destroy()
    },
  }
}

/** Null: the check took too long, which says nothing on a busy machine. */
async function isReady(url: string): Promise<boolean | null> {
  const headers = { connection: 'close' }
  return fetch(`${url}/readyz`, { headers, signal: AbortSignal.timeout(checkWithinMs) }).then(
    async response => {
      await response.body?.cancel()
      return response.ok
    },
    ({ name }: Error) => (name === 'TimeoutError' ? null : false),
  )
}

function forward(request: http.IncomingMessage, response: http.ServerResponse, url: string, agent: http.Agent): void {
  const { method, headers } = request
  const onward = http.request(url + request.url, { method, headers, agent }, answer => {
    const { connection: _hop, ...kept } = answer.headers
    response.writeHead(answer.statusCode!, kept)
    answer.on('error', () => response.destroy())
    answer.pipe(response)
  })
  onward.on('error', error => {
    if (response.headersSent) response.destroy()
    else response.writeHead(502).end(error.message)
  })
  // A client that leaves is one that leaves the web process, too.
  response.once('close', () => {
    if (!response.writableEnded) onward.destroy()
  })
  request.pipe(onward)
}
