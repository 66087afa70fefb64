import { request } from 'node:http'
import { connect, type Socket } from 'node:net'

/** What an attack may use: the address of the process, and accounts of its own, which are free. */
export type World = {
  port: number
  /** A test key of a new organisation, which keeps responses. */
  newKey(): Promise<string>
}

/** `victim` is what another client asks for meanwhile; an ordinary chat request by default. */
export type Attack = {
  name: string
  /** In a few words, for the table. */
  what: string
  seconds: number
  /** Ends when it has nothing left to do, and at the latest when `signal` is aborted. */
  run(world: World, signal: AbortSignal): Promise<void>
  victim?: Call
}

export type Call = { path: string; headers: Record<string, string>; body: string | Buffer }
export type Answer = { status: number; bytes: number }

const json = { 'content-type': 'application/json' }

export function jsonCall(path: string, value: object): Call {
  return { path, headers: json, body: JSON.stringify(value) }
}

/** Sends a request over a connection of its own. Rejects when there is no answer. */
export function send(port: number, key: string, { path, headers, body }: Call, signal: AbortSignal): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const all = { authorization: `Bearer ${key}`, 'content-length': Buffer.byteLength(body), ...headers }
    const options = { port, path, host: '127.0.0.1', method: 'POST', agent: false, headers: all, signal }
    const sent = request(options, response => {
      let bytes = 0
      response.on('data', part => (bytes += part.length))
      response.on('end', () => resolve({ status: response.statusCode!, bytes }))
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

/** A connection of which nothing is read unless someone listens, and which `signal` destroys. */
export function openRaw(port: number, signal: AbortSignal): Socket {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  socket.setMaxListeners(0)
  socket.on('error', () => {}) // The close follows.
  const destroy = () => socket.destroy()
  signal.addEventListener('abort', destroy)
  socket.once('close', () => signal.removeEventListener('abort', destroy))
  return socket
}

/** Writes as fast as the other side takes it, until all is written or the connection is closed. */
export async function writeAll(socket: Socket, bytes: Buffer, times: number): Promise<void> {
  for (let i = 0; i < times && !socket.destroyed; i++) {
    if (socket.write(bytes)) continue
    await new Promise<void>(resolve => {
      socket.once('drain', resolve).once('close', () => resolve())
    })
  }
}

/** Resolves when the signal is aborted. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** Runs several at once. */
export function atOnce<T>(count: number, work: (index: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => work(index)))
}
