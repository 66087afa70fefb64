import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

/** How a connection between two processes is impaired. */
export type Impairment = 'none' | 'slow' | 'stalled' | 'refused'

const slowMs = 250

/** A TCP proxy between one process and one server, whose connections can be slowed, stalled, reset and refused. */
export class Link {
  /** The address of the server, with the proxy's own port. */
  readonly url: string
  /** When its connections were reset, or one was accepted and reset at once. */
  readonly resetMs: number[] = []
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #resumes = new Set<() => void>()
  #impairment: Impairment = 'none'

  private constructor(server: Server, url: string) {
    this.#server = server
    this.url = url
  }

  static async open(target: string): Promise<Link> {
    const { hostname, port } = new URL(target)
    const server = createServer(client => link.#join(client, connect(Number(port), hostname)))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const own = new URL(target)
    own.hostname = '127.0.0.1'
    own.port = String((server.address() as AddressInfo).port)
    const link: Link = new Link(server, own.href.replace(/\/$/, target.endsWith('/') ? '/' : ''))
    return link
  }

  impair(impairment: Impairment): void {
    this.#impairment = impairment
    if (impairment === 'stalled') return
    for (const resume of this.#resumes) resume()
    this.#resumes.clear()
  }

  /** Resets every connection, as a firewall or a failed host does. */
  reset(): void {
    this.resetMs.push(Date.now())
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #join(client: Socket, server: Socket): void {
    if (this.#impairment === 'refused') {
      this.resetMs.push(Date.now())
      server.destroy()
      client.resetAndDestroy()
      return
    }
    this.#relay(client, server)
    this.#relay(server, client)
  }

  /** Passes on what one end sends, in order. */
  #relay(from: Socket, to: Socket): void {
    this.#sockets.add(from)
    let last = Promise.resolve()
    from.setNoDelay(true)
    from.on('error', () => {}) // The close says the rest.
    from.on('data', part => {
      if (this.#impairment === 'none' && from.readableFlowing) {
        if (!to.write(part)) {
          from.pause()
          to.once('drain', () => from.resume())
        }
        return
      }
      from.pause()
      last = last.then(async () => {
        await this.#wait()
        to.write(part)
        from.resume()
      })
    })
    from.on('end', () => void last.then(() => to.end()))
    from.on('close', () => {
      this.#sockets.delete(from)
      void last.then(() => to.destroy())
    })
  }

  async #wait(): Promise<void> {
    if (this.#impairment === 'slow') await new Promise(resolve => setTimeout(resolve, slowMs))
    while (this.#impairment === 'stalled') {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#resumes.add(resolve)
      await promise
    }
  }
}
