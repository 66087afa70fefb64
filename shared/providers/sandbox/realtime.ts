import type { WebSocket } from '../../io/socket.ts'

/** Holds one session of a test key. */
export function serveSession(socket: WebSocket, model: string): void {
  socket.on('error', () => {}) // It is closed then.
  socket.send(JSON.stringify({ type: 'session.created', event_id: 'event_1', session: { type: 'realtime', model } }))
}
