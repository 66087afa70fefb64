import { setImmediate } from 'node:timers/promises'
import { frameOf, opcodes } from '../lib/websocket.ts'
import { type Attack, atOnce, openRaw, untilAborted, type World, writeAll } from './attack.ts'

// Attacks by the form in which bytes arrive: many small chunks, frames or requests.

const chunk = Buffer.from('1\r\nx\r\n')
const chunksPerWrite = 10_000
const manyChunks = Buffer.concat(Array.from({ length: chunksPerWrite }, () => chunk))
const upgrade = [
  'Host: a',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
]

/** Sends a chunked body of one byte each that never ends. */
async function trickle(world: World, head: string[], first: string, chunks: number, signal: AbortSignal) {
  const socket = openRaw(world.port, signal)
  const lines = [...head, 'Host: a', 'Transfer-Encoding: chunked', '', '']
  socket.write(`${lines.join('\r\n')}${first.length.toString(16)}\r\n${first}\r\n`)
  await writeAll(socket, manyChunks, chunks / chunksPerWrite)
}

type ChunkedRequest = { path: string; type: string; first: string; count: number; chunks: number; isPublic?: true }

/** Bodies in 1-byte chunks that never end; with a key, unless the route is public. */
function chunked(name: string, what: string, request: ChunkedRequest): Attack {
  const { path, type, first, count, chunks, isPublic } = request
  return {
    name,
    what,
    seconds: 12,
    async run(world, signal) {
      const sender = isPublic
        ? `Origin: http://127.0.0.1:${world.port}`
        : `Authorization: Bearer ${await world.newKey()}`
      const head = [`POST ${path} HTTP/1.1`, `Content-Type: ${type}`, sender]
      await atOnce(count, () => trickle(world, head, first, chunks, signal))
      await untilAborted(signal)
    },
  }
}

const json = 'application/json'
const formStart =
  '--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
const signIn = { path: '/dashboard/api/auth/sign-in/email', type: json, first: '{"email":"' }
const chat = { path: '/v1/chat/completions', type: json, first: '{"model":"' }
const form = { path: '/v1/files', type: 'multipart/form-data; boundary=b', first: formStart }
const chunkedBodies = chunked('chunked-bodies', '64 bodies in 1-byte chunks, no key', {
  ...signIn,
  count: 64,
  chunks: 60_000,
  isPublic: true,
})
const chunkedChats = chunked('chunked-chats', '4 chat bodies of a million 1-byte chunks', {
  ...chat,
  count: 4,
  chunks: 1_000_000,
})
const chunkedForms = chunked('chunked-forms', '8 forms in 1-byte chunks', { ...form, count: 8, chunks: 300_000 })

const pipelining: Attack = {
  name: 'pipelining',
  what: '24 MB of pipelined GETs, nobody reads',
  seconds: 15,
  async run(world, signal) {
    const one = 'GET /docs/chat HTTP/1.1\r\nHost: a\r\n\r\n'
    const many = Buffer.from(one.repeat(1_000))
    await atOnce(8, () => writeAll(openRaw(world.port, signal), many, 3_000_000 / many.length))
    await untilAborted(signal)
  },
}

/** Opens a WebSocket; null if it is refused. */
async function openSocket(world: World, path: string, key: string, signal: AbortSignal) {
  const socket = openRaw(world.port, signal)
  socket.write([`GET ${path} HTTP/1.1`, `Authorization: Bearer ${key}`, ...upgrade, '', ''].join('\r\n'))
  const head = await new Promise<string>(resolve => {
    socket.once('data', part => resolve(part.toString('latin1'))).once('close', () => resolve(''))
  })
  if (head.startsWith('HTTP/1.1 101')) return socket
  socket.destroy()
  return null
}

const drippedFrames: Attack = {
  name: 'dripped-frames',
  what: '90 WebSocket frames, a byte a segment',
  seconds: 20,
  async run(world, signal) {
    const keys = await atOnce(9, () => world.newKey())
    const opened = await atOnce(90, index => openSocket(world, '/v1/responses', keys[index % 9]!, signal))
    const sockets = opened.filter(socket => socket !== null)
    // The head of a masked text frame of 1 MiB.
    const head = Buffer.from([0x81, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0])
    for (const socket of sockets) socket.write(head)
    for (let i = 0; i < 10_000 && !signal.aborted; i++) {
      for (const socket of sockets) socket.write(' ')
      await setImmediate()
    }
    await untilAborted(signal)
  },
}

function tinyFrames(name: string, path: string): Attack {
  return {
    name,
    what: `5 MB of 2-byte frames to ${path.split('?', 1)[0]}`,
    seconds: 10,
    async run(world, signal) {
      const socket = await openSocket(world, path, await world.newKey(), signal)
      if (!socket) throw new Error(`the WebSocket at ${path} is refused`)
      socket.resume()
      const frame = frameOf(opcodes.text, Buffer.from('{}'), true)
      const many = Buffer.concat(Array.from({ length: 8_000 }, () => frame))
      await writeAll(socket, many, 5_000_000 / many.length)
    },
  }
}

const idleConnections: Attack = {
  name: 'idle-connections',
  what: '10,100 idle connections of one address',
  seconds: 25,
  async run(world, signal) {
    for (let i = 0; i < 10_100 && !signal.aborted; i++) {
      const socket = openRaw(world.port, signal)
      socket.write('GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n')
      if (i % 200 === 0) await new Promise(resolve => setTimeout(resolve, 20))
    }
    await untilAborted(signal)
  },
}

export const arrivalAttacks = [
  chunkedBodies,
  chunkedChats,
  chunkedForms,
  pipelining,
  drippedFrames,
  tinyFrames('tiny-frames', '/v1/responses'),
  tinyFrames('tiny-realtime-frames', '/v1/realtime?model=gpt-realtime'),
  idleConnections,
]
