import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'

export type EgressProxy = {
  /** Its URL as `HTTPS_PROXY` has it, with its credentials. */
  url: string
  /** The targets of its tunnels and of the requests that it forwarded, `host:port`. */
  targets: string[]
  close(): Promise<void>
}

export type EgressProxyOptions = {
  /** `user:password`: what it demands. */
  credentials?: string
  /** Answers no tunnel: as a proxy that hangs. */
  hangs?: boolean
  /** Where it connects to for these targets. */
  routes?: Record<string, string>
}

/** An HTTP proxy as squid is one: tunnels (CONNECT), and plain requests with an absolute URL; 407 without the right credentials. */
export async function startEgressProxy(options: EgressProxyOptions = {}): Promise<EgressProxy> {
  const { credentials, hangs = false, routes = {} } = options
  const targets: string[] = []
  const sockets = new Set<Socket>()
  const expected = credentials && `Basic ${Buffer.from(credentials).toString('base64')}`
  const isRefused = ({ headers }: IncomingMessage) =>
    expected !== undefined && headers['proxy-authorization'] !== expected
  const server = http.createServer((request, response) => {
    if (isRefused(request)) return response.writeHead(407, { 'proxy-authenticate': 'Basic' }).end()
    if (!/^http:/.test(request.url ?? '')) return response.writeHead(400).end()
    const { host, hostname, port, pathname, search } = new URL(request.url!)
    targets.push(host)
    const { 'proxy-authorization': _, ...headers } = request.headers
    const onward = http.request({
      hostname,
      port,
      path: pathname + search,
      method: request.method,
      headers,
      agent: false,
    })
    onward.on('response', answer => answer.pipe(response.writeHead(answer.statusCode!, answer.headers)))
    onward.on('error', () => response.destroy())
    request.pipe(onward)
  })
  server.on('connection', socket => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
  })
  server.on('connect', (request, client, head) => {
    if (hangs) return
    if (isRefused(request)) return void client.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n')
    targets.push(request.url!)
    const target = new URL(`tcp://${routes[request.url!] ?? request.url}`)
    const upstream = connect(Number(target.port), target.hostname.replace(/^\[|\]$/g, ''))
    upstream.once('connect', () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n')
      upstream.write(head)
      client.pipe(upstream).pipe(client)
    })
    upstream.once('error', () => client.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'))
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const)
      socket.once('close', () => other.destroy())
    client.on('error', () => {})
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://${credentials ? `${credentials}@` : ''}127.0.0.1:${(server.address() as AddressInfo).port}`,
    targets,
    async close() {
      server.close()
      for (const socket of sockets) socket.destroy()
      await once(server, 'close')
    },
  }
}
