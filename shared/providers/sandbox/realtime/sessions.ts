import http from 'node:http'
import { type Duplex, duplexPair } from 'node:stream'
import { WebSocketServer } from 'ws'
import { type SocketAddress, servedSockets } from '../../../io/socket.ts'
import { serveSession } from './realtime.ts'

/**
 * The realtime provider of test keys, inside this process: a WebSocket server that does not listen, over in-memory
 * streams.
 */
export type SandboxSessions = {
  /** The address of a session, by its path. */
  address(path: string): SocketAddress
  /** Terminates every session. */
  close(): void
}

export function createSandboxSessions(): SandboxSessions {
  const server = http.createServer()
  const sockets = new WebSocketServer({ noServer: true, ...servedSockets })
  server.on('upgrade', (request, socket, head) => {
    sockets.handleUpgrade(request, socket, head, session => {
      const query = new URL(request.url ?? '/', 'http://sandbox').searchParams
      serveSession(session, query.get('model') ?? 'gpt-4o-transcribe', query.get('intent'))
    })
  })
  const connection = (): Duplex => {
    const [ours, theirs] = duplexPair()
    // Unlike with a real connection, the other end would not be notified.
    ours.once('close', () => theirs.destroy())
    server.emit('connection', theirs)
    return ours
  }
  return {
    address: path => ({ url: `ws://sandbox${path}`, headers: {}, handshakeTimeoutMs: null, connection }),
    close() {
      for (const session of sockets.clients) session.terminate()
    },
  }
}
