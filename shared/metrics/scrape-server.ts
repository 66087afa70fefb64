import { once } from 'node:events'
import http from 'node:http'
import { Registry } from 'prom-client'
import { ConfigError } from '../base/config.ts'
import type { MetricsAddress } from '../base/telemetry-config.ts'

/** A scrape takes milliseconds: more connections are a mistake, and one that idles is closed. */
const limits = { maxConnections: 32, keepAliveTimeoutMs: 65_000, requestTimeoutMs: 10_000 }

/** A server that answers scrapes at `/metrics`. */
export type ScrapeServer = { port: number; close(): void }

/**
 * Opens the server for scrapes. Scrapes at the same time share one `render`. Throws a ConfigError if the address cannot be
 * listened on.
 */
export async function openScrapeServer(
  { host, port }: MetricsAddress,
  render: () => Promise<string>,
): Promise<ScrapeServer> {
  let rendering: Promise<string> | null = null
  const share = () => {
    rendering ??= render().finally(() => {
      rendering = null
    })
    return rendering
  }
  const server = http.createServer(
    { requestTimeout: limits.requestTimeoutMs, keepAliveTimeout: limits.keepAliveTimeoutMs, noDelay: true },
    (request, response) => void answer(request, response, share),
  )
  server.maxConnections = limits.maxConnections
  server.listen({ host, port })
  try {
    await once(server, 'listening')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const reason = code === 'EADDRINUSE' ? 'another process is listening there' : 'the address cannot be used'
    throw new ConfigError([`METRICS_PORT: ${port} of ${host}: ${reason} (${code})`])
  }
  const address = server.address()
  return {
    port: typeof address === 'object' && address ? address.port : port,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

async function answer(
  request: http.IncomingMessage,
  response: http.ServerResponse,
  render: () => Promise<string>,
): Promise<void> {
  const path = request.url?.split('?', 1)[0]
  const isRead = request.method === 'GET' || request.method === 'HEAD'
  if (path !== '/metrics' || !isRead) {
    response.writeHead(path === '/metrics' ? 405 : 404).end()
    return
  }
  try {
    const text = await render()
    response.writeHead(200, { 'content-type': Registry.PROMETHEUS_CONTENT_TYPE }).end(text)
  } catch {
    response.writeHead(500).end()
  }
}
