import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export type TcpProxy = {
  /** The address of the server behind it, with the proxy's own port. */
  url: string
  /** Lets nothing more through on the connections there are, and closes none: as a failover or a forgotten NAT entry does. */
  mute(): void
  close(): Promise<void>
}

/** Interceptor of the bytes in transit: called with each chunk before it is passed on. */
export type Watch = {
  fromClient?(part: Buffer): void | Promise<void>
  fromServer?(part: Buffer): Buffer
}

/** A TCP proxy in front of the server that a URL names. */
export async function startProxy(url: string, { fromClient, fromServer }: Watch = {}): Promise<TcpProxy> {
  const target = new URL(url)
  const pairs = new Set<{ muted: boolean; sockets: [Socket, Socket] }>()
  const server = createServer(client => {
    const upstream = connect(Number(target.port), target.hostname)
    const pair = { muted: false, sockets: [client, upstream] as [Socket, Socket] }
    pairs.add(pair)
    client.on('data', async part => {
      await fromClient?.(part)
      if (!pair.muted) upstream.write(part)
    })
    upstream.on('data', part => {
      if (!pair.muted) client.write(fromServer ? fromServer(part) : part)
    })
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      socket.on('error', () => {})
      socket.on('close', () => {
        // A muted connection says nothing of its end either.
        if (!pair.muted) other.destroy()
      })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const own = new URL(url)
  own.hostname = '127.0.0.1'
  own.port = String((server.address() as AddressInfo).port)
  return {
    url: own.href,
    mute() {
      for (const pair of pairs) pair.muted = true
    },
    async close() {
      for (const { sockets } of pairs) for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}
