import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIPv6, type Socket } from 'node:net'
import { buildConnector, errors } from 'undici'
import { proxyName } from '../base/proxies.ts'

/** The proxy did not open a connection; nothing of the request has been sent. */
class ProxyError extends Error {
  override name = 'ProxyError'
  readonly code = 'ERR_PROXY'
}

type Target = { host: string; port: number }

/** The host and the port that a URL names. */
export function targetOf({ protocol, hostname, port }: Pick<URL, 'protocol' | 'hostname' | 'port'>): Target {
  const isSecure = protocol === 'https:' || protocol === 'wss:'
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || (isSecure ? 443 : 80) }
}

/**
 * Opens a connection to a host through an HTTP proxy (CONNECT, RFC 9110 §9.3.6). Rejects with a ProxyError, or with undici's
 * ConnectTimeoutError.
 */
export function openTunnel(proxy: string, { host, port }: Target, timeoutMs: number): Promise<Socket> {
  const { protocol, hostname, port: proxyPort, username, password } = new URL(proxy)
  const target = `${isIPv6(host) ? `[${host}]` : host}:${port}`
  const isSecure = protocol === 'https:'
  const credentials = username && `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return new Promise((resolve, reject) => {
    const request = (isSecure ? httpsRequest : httpRequest)({
      host: hostname.replace(/^\[|\]$/g, ''),
      port: proxyPort || (isSecure ? 443 : 80),
      method: 'CONNECT',
      path: target,
      headers: {
        host: target,
        ...(credentials && { 'proxy-authorization': `Basic ${Buffer.from(credentials).toString('base64')}` }),
      },
      agent: false,
    })
    const message = `the proxy ${proxyName(proxy)}`
    const timer = setTimeout(() => {
      request.destroy(new errors.ConnectTimeoutError(`${message} did not connect within ${timeoutMs} ms`))
    }, timeoutMs)
    const fail = (error: Error) => {
      clearTimeout(timer)
      const isTimeout = error instanceof errors.ConnectTimeoutError
      reject(isTimeout ? error : new ProxyError(`${message} cannot be used: ${error.message}`, { cause: error }))
    }
    request.once('connect', ({ statusCode = 0 }, socket, head) => {
      clearTimeout(timer)
      if (statusCode >= 200 && statusCode <= 299) {
        if (head.length > 0) socket.unshift(head)
        resolve((socket as Socket).setNoDelay(true))
        return
      }
      socket.destroy()
      reject(new ProxyError(`${message} refused the connection with status ${statusCode}`))
    })
    request.once('error', fail)
    request.end()
  })
}

type TunnelOptions = {
  proxy: string
  timeoutMs: number
  /** Where the proxy connects to instead of resolving the name: an address that was checked. */
  address?: string | undefined
}

/** Connects undici's pools through a proxy, with TLS to the host itself. */
export function tunnelConnector({ proxy, timeoutMs, address }: TunnelOptions): buildConnector.connector {
  const secure = buildConnector({ timeout: timeoutMs, allowH2: false })
  return (options, done) => {
    const { host, port } = targetOf(options)
    openTunnel(proxy, { host: address ?? host, port }, timeoutMs).then(
      socket => {
        if (options.protocol === 'https:') secure({ ...options, httpSocket: socket }, done)
        else done(null, socket)
      },
      error => done(error, null),
    )
  }
}
