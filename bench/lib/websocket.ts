import type { Socket } from 'node:net'

// WebSocket connections (RFC 6455) as raw bytes, for load that has to cost far less than what is measured: one write a
// frame, nothing copied of what is read, no message in parts, no extensions.

export const opcodes = { text: 1, close: 8, ping: 9, pong: 10 }
/** The bytes of a frame's payload begin at `at`; its mask at `maskAt`, null = it has none. */
export type Frame = { opcode: number; bytes: Buffer; at: number; length: number; maskAt: number | null }
export type Listener = { onHead(head: string): void; onFrame(frame: Frame): void; onClose(): void }

/** What clients mask with. It need not be secret here, only cost the other side what a mask does. */
const mask = Buffer.from([0x5a, 0xc3, 0x3c, 0xa5])
const headEnd = '\r\n\r\n'
const normalClose = Buffer.from([0x03, 0xe8])
const maxSmall = 125
const digits = 16

/** A whole frame. Payloads are below 64 KiB. */
export function frameOf(opcode: number, payload: Buffer, masked: boolean): Buffer {
  const { length } = payload
  const extended = length > maxSmall
  const lengthByte = (extended ? 126 : length) | (masked ? 0x80 : 0)
  const head = extended ? [0x80 | opcode, lengthByte, length >> 8, length & 0xff] : [0x80 | opcode, lengthByte]
  if (!masked) return Buffer.concat([Buffer.from(head), payload])
  return Buffer.concat([Buffer.from(head), mask, payload.map((byte, i) => byte ^ mask[i & 3]!)])
}

export function textFrame(event: object, masked: boolean): Buffer {
  return frameOf(opcodes.text, Buffer.from(JSON.stringify(event)), masked)
}

/** Frames of one event that differ in nothing but the microsecond they were made at, `digits` of them in place of `stamp`. */
export class StampedFrame {
  static readonly stamp = '0'.repeat(digits)
  /** Bytes of the payload; they tell it from other frames. */
  readonly length: number
  readonly #frame: Buffer
  readonly #stampAt: number
  readonly #masked: boolean

  constructor(event: object, masked: boolean) {
    const payload = Buffer.from(JSON.stringify(event))
    this.length = payload.length
    this.#stampAt = payload.indexOf(StampedFrame.stamp)
    this.#masked = masked
    this.#frame = frameOf(opcodes.text, payload, masked)
  }

  made(nowUs: number): Buffer {
    const frame = Buffer.from(this.#frame)
    const from = frame.length - this.length + this.#stampAt
    let rest = Math.floor(nowUs)
    for (let i = digits - 1; i >= 0; i--) {
      const digit = 0x30 + (rest % 10)
      frame[from + i] = this.#masked ? digit ^ mask[(this.#stampAt + i) & 3]! : digit
      rest = Math.floor(rest / 10)
    }
    return frame
  }

  /** When a frame of this event was made, in microseconds. */
  madeUs({ bytes, at, maskAt }: Frame): number {
    let us = 0
    for (let i = this.#stampAt; i < this.#stampAt + digits; i++) {
      const byte = bytes[at + i]!
      us = us * 10 + (maskAt === null ? byte : byte ^ bytes[maskAt + (i & 3)]!) - 0x30
    }
    return us
  }
}

/** One end of a connection: gives the head of the upgrade, then every text frame; answers pings and the close. */
export class RawWebSocket {
  readonly #socket: Socket
  readonly #listener: Listener
  readonly #masks: boolean
  #head: string | null = ''
  #rest: Buffer | null = null
  #closing = false

  /** `masks`: it is the client's end. */
  constructor(socket: Socket, masks: boolean, listener: Listener) {
    this.#socket = socket
    this.#listener = listener
    this.#masks = masks
    socket.on('data', data => (this.#head === null ? this.#read(data) : this.#readHead(data)))
    socket.on('error', () => {}) // The close follows.
    socket.on('close', () => listener.onClose())
  }

  write(bytes: Buffer | string): void {
    this.#socket.write(bytes)
  }

  close(): void {
    if (this.#closing) return
    this.#closing = true
    this.write(frameOf(opcodes.close, normalClose, this.#masks))
  }

  #readHead(data: Buffer): void {
    const before = this.#head!.length
    const text = this.#head + data.toString('latin1')
    const end = text.indexOf(headEnd)
    this.#head = end < 0 ? text : null
    if (end < 0) return
    this.#listener.onHead(text.slice(0, end))
    this.#read(data.subarray(end + headEnd.length - before))
  }

  #read(data: Buffer): void {
    const bytes = this.#rest ? Buffer.concat([this.#rest, data]) : data
    let at = 0
    for (let frame = frameAt(bytes, at); frame; frame = frameAt(bytes, at)) {
      at = frame.at + frame.length
      if (frame.opcode === opcodes.text) this.#listener.onFrame(frame)
      else this.#control(frame)
    }
    this.#rest = at < bytes.length ? bytes.subarray(at) : null
  }

  #control({ opcode, bytes, at, length, maskAt }: Frame): void {
    if (opcode === opcodes.ping) {
      const payload = bytes.subarray(at, at + length)
      const plain = maskAt === null ? payload : payload.map((byte, i) => byte ^ bytes[maskAt + (i & 3)]!)
      this.write(frameOf(opcodes.pong, Buffer.from(plain), this.#masks))
    }
    if (opcode !== opcodes.close) return
    this.close()
    this.#socket.end()
  }
}

/** The frame that begins at `from`; null while it is incomplete. */
function frameAt(bytes: Buffer, from: number): Frame | null {
  if (bytes.length < from + 2) return null
  const masked = (bytes[from + 1]! & 0x80) !== 0
  const small = bytes[from + 1]! & 0x7f
  if (small === 127) throw new Error('a frame of 64 KiB or more')
  let at = from + (small === 126 ? 4 : 2)
  if (bytes.length < at) return null
  const length = small === 126 ? bytes.readUInt16BE(from + 2) : small
  const maskAt = masked ? at : null
  if (masked) at += mask.length
  return bytes.length < at + length ? null : { opcode: bytes[from]! & 0x0f, bytes, at, length, maskAt }
}
