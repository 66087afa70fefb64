import http, { type RequestListener } from 'node:http'
import type { Config } from '../shared/base/config.ts'
import { Connections } from './connections.ts'
import { HttpRequest } from './http-request.ts'
import { isWebSocketUpgrade } from './sockets/handshake.ts'

/** Creates the HTTP server of a web process, with its limits on connections and on how requests arrive. */
export function createHttpServer(
  config: Pick<Config, 'keepAliveTimeoutMs' | 'maxConnections' | 'trustedProxies'>,
  handle: RequestListener,
): { server: http.Server; connections: Connections } {
  const server = http.createServer({
    IncomingMessage: HttpRequest,
    keepAliveTimeout: config.keepAliveTimeoutMs,
    headersTimeout: 20_000,
    // For uploads; slower senders than the minimum rate are rejected earlier.
    requestTimeout: 900_000,
    connectionsCheckingInterval: 10_000,
    noDelay: true,
    shouldUpgradeCallback: isWebSocketUpgrade,
  })
  const connections = new Connections(server, config)
  server.on('request', connections.limit(handle))
  return { server, connections }
}
