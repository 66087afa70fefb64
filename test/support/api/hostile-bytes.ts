import { connect, type Socket } from 'node:net'
import { formType, partOf } from '../io/raw-requests.ts'

/** Forms in which the bytes of a request may arrive, whatever the request is. */

export type Sent = { method: string; path: string; headers: Record<string, string>; isForm: boolean }

/** One client's connection of an attack. `answered`: once something came back or it was closed. */
export type Attacker = { socket: Socket; answered: Promise<void>; text(): string }

type Form = (sent: Sent, attack: (isRead?: boolean) => Attacker) => Attacker

/** So many bytes, each in a chunk of its own. */
const bytesInChunks = Buffer.from('1\r\nx\r\n'.repeat(12_000))
/** Enough of them that keeping each as an object would show. */
const manyBytesInChunks = Buffer.from('1\r\nx\r\n'.repeat(60_000))
const manyChunks = Buffer.concat(Array.from({ length: 10_000 }, () => Buffer.from(`40\r\n${'y'.repeat(64)}\r\n`)))
const manyParts = Buffer.concat(Array.from({ length: 10_000 }, (_, i) => partOf(`n${i}`, 'v')))
const end = '0\r\n\r\n'
const chunkOf = (bytes: Buffer) =>
  Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])

function headOf({ method, path, headers, isForm }: Sent, more: Record<string, string | number> = {}): string {
  const all = { host: 'gateway', 'content-type': isForm ? formType : 'application/json', ...headers, ...more }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`
}

const chunked = { 'transfer-encoding': 'chunked' }

/** Every form is sent to every route. */
export const forms: Record<string, Form> = {
  'chunks of a byte': (sent, attack) => write(attack(), headOf(sent, chunked), bytesInChunks, end),
  'chunks of a byte, never ended': (sent, attack) => write(attack(), headOf(sent, chunked), manyBytesInChunks),
  '10,000 chunks': (sent, attack) => write(attack(), headOf(sent, chunked), manyChunks, end),
  '10,000 parts': (sent, attack) =>
    write(attack(), headOf({ ...sent, isForm: true }, chunked), chunkOf(manyParts), end),
  pipelined: (sent, attack) => write(attack(), headOf(sent, { 'content-length': 0 }).repeat(500)),
  'pipelined and never read': (sent, attack) => write(attack(false), headOf(sent, { 'content-length': 0 }).repeat(500)),
  'never read': (sent, attack) => write(attack(false), headOf(sent, { 'content-length': 2 }), '{}'),
  'never ended': (sent, attack) => write(attack(), headOf(sent, { 'content-length': 1_000 }), '{'),
  'a head that never ends': (sent, attack) => write(attack(), headOf(sent).slice(0, -2)),
  'half-closed': (sent, attack) => {
    const attacker = write(attack(), headOf(sent, { 'content-length': 2 }), '{}')
    attacker.socket.end()
    return attacker
  },
  'half-closed within the body': (sent, attack) => {
    const attacker = write(attack(), headOf(sent, { 'content-length': 1_000 }), '{')
    attacker.socket.end()
    return attacker
  },
  'long chunk extensions': (sent, attack) =>
    write(attack(), headOf(sent, chunked), `1;${'e'.repeat(15_000)}\r\nx\r\n`.repeat(40), end),
  'long trailers': (sent, attack) =>
    write(attack(), headOf(sent, chunked), '2\r\n{}\r\n0\r\n', 'a: b\r\n'.repeat(5_000), '\r\n'),
  'many headers': (sent, attack) =>
    write(attack(), headOf(sent, { 'content-length': 0 }).replace('\r\n', `\r\n${'a: b\r\n'.repeat(3_000)}`)),
  'expects to continue': (sent, attack) =>
    write(attack(), headOf(sent, { expect: '100-continue', 'content-length': 1_000 })),
  'HTTP/1.0': (sent, attack) =>
    write(attack(), headOf(sent, { 'content-length': 2 }).replace('HTTP/1.1', 'HTTP/1.0'), '{}'),
  CONNECT: (sent, attack) => write(attack(), headOf({ ...sent, method: 'CONNECT' })),
  idle: (_sent, attack) => attack(),
}

/** The forms whose client is answered, or whose connection is closed, without doing anything more. */
export const answeredForms = new Set(
  Object.keys(forms).filter(form => !/never|idle|continue|half-closed within|a head/.test(form)),
)

function write(attacker: Attacker, ...parts: (Buffer | string)[]): Attacker {
  for (const part of parts) attacker.socket.write(part)
  return attacker
}

/** Connects to a server as an attacker does. */
export function attackerOf(url: string, isRead = true): Attacker {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  let text = ''
  const { promise, resolve } = Promise.withResolvers<void>()
  socket.on('error', () => resolve())
  socket.on('close', () => resolve())
  if (isRead)
    socket.on('data', part => {
      if (text.length < 10_000) text += part.toString('latin1')
      resolve()
    })
  return { socket, answered: promise, text: () => text }
}
