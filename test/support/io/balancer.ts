import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export type Balancer = { url: string; close(): Promise<void> }

/**
 * A plain TCP load balancer on a loopback port: round-robin over the ports, the next one where a connection is refused. It
 * knows nothing of HTTP or of readiness, and retries nothing else.
 */
export async function startBalancer(ports: readonly number[]): Promise<Balancer> {
  let next = 0
  const sockets = new Set<Socket>()
  const track = (socket: Socket) => {
    sockets.add(socket.setNoDelay(true))
    socket.once('close', () => sockets.delete(socket))
  }
  const dial = (client: Socket, first: number, tries: number) => {
    const target = connect(ports[(first + tries) % ports.length]!, '127.0.0.1')
    const refused = () => void (tries + 1 < ports.length ? dial(client, first, tries + 1) : client.destroy())
    target.once('error', refused)
    target.once('connect', () => {
      target.off('error', refused)
      track(target)
      for (const [from, to] of [
        [client, target],
        [target, client],
      ] as const) {
        from.on('error', () => to.destroy())
        from.once('close', () => to.destroy())
        from.pipe(to)
      }
    })
  }
  const server = createServer(client => {
    track(client)
    client.on('error', () => {}) // Until there is a target, there is no other listener.
    dial(client, next++, 0)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
