import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** Requests as they are on the wire. */

export async function connectTo(address: string): Promise<Socket> {
  const { hostname, port } = new URL(address)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  return socket
}

/** The head of a POST request. */
export function headOf(path: string, key: string, more: Record<string, string | number>, version = '1.1'): string {
  const headers = { host: 'gateway', authorization: `Bearer ${key}`, ...more }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `POST ${path} HTTP/${version}\r\n${lines.join('')}\r\n`
}

/** All that comes until the other side closes. */
export async function readAll(socket: Socket): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of socket) parts.push(part)
  return Buffer.concat(parts)
}

export const formType = 'multipart/form-data; boundary=x'

/** One part of a form. */
export function partOf(name: string, content: Buffer | string, filename = '', type = ''): Buffer {
  const file = filename && `; filename="${filename}"\r\nContent-Type: ${type}`
  const start = `--x\r\nContent-Disposition: form-data; name="${name}"${file}\r\n\r\n`
  return Buffer.concat([Buffer.from(start), Buffer.from(content), Buffer.from('\r\n')])
}

/** A whole form. */
export function formOf(...parts: Buffer[]): Buffer {
  return Buffer.concat([...parts, Buffer.from('--x--\r\n')])
}
