/**
 * Ids of the gateway. A request has its own (`chatcmpl-…`, `emb_…`) beside the provider's: the reservation, the log and the
 * headers need one before any provider is called, and local servers return the same id twice. It is the header
 * `x-generation-id`, the key of the request log and the cause of the charge. Where the provider's bytes pass unchanged, the body
 * has the provider's id, kept as `upstream_id`; `GET /v1/generation?id=` accepts either.
 */

import { createHash, randomFillSync } from 'node:crypto'
import { systemClock } from './time.ts'

const alphabet = '0123456789abcdefghijklmnopqrstuvwxyz'

// Random bytes are fetched from the kernel in blocks: one call per id would be a tenth of the cost of a request.
const block = Buffer.alloc(4096)
let letters = ''
let used = block.length
let timeMs = -1
let time = ''

/** Sortable random text: 9 characters of time (base 36 milliseconds) and 15 random ones (77 bits). */
function sortable(): string {
  if (used + 15 > block.length) refill()
  const nowMs = systemClock.now()
  if (nowMs !== timeMs) {
    timeMs = nowMs
    time = timeText(nowMs)
  }
  used += 15
  return time + letters.slice(used - 15, used)
}

function timeText(ms: number): string {
  return ms.toString(36).padStart(9, '0')
}

function refill(): void {
  randomFillSync(block)
  for (let i = 0; i < block.length; i++) block[i] = alphabet.charCodeAt(block[i]! % 36)
  letters = block.toString('latin1')
  used = 0
}

const separators = { chatcmpl: '-', cmpl: '-', file: '-' } as const
export type IdPrefix =
  | keyof typeof separators
  | 'call'
  | 'job'
  | 'mesh'
  | 'ajob'
  | 'batch'
  | 'batch_req'
  | 'req'
  | 'evt'
  | 'whe'
  | 'upl'
  | 'mem'
  | 'inv'
  | 'aud'
  | 'inc'
  | 'imsg'
  | 'alr'
  | 'bdg'
  | 'rule'
  | 'top'
  | 'org'
  | 'key'
  | 'pkey'
  | 'emb'
  | 'gen'
  | 'msg'
  | 'resp'
  | 'conv'
  | 'item'
  | 'img'
  | 'speech'
  | 'trs'
  | 'music'
  | 'sfx'
  | 'rrk'
  | 'modr'
  | 'ocr'
  | 'dep'
  | 'adj'
  | 'user'
  | 'rt'
  | 'sess'
  | 'tfa'
  | 'pass'
  | 'exp'
  | 'expc'
  | 'replay'
  | 'pre'

/** A new id: prefix and a sortable random part. */
export function newId(prefix: IdPrefix): string {
  return `${beginOf(prefix)}${sortable()}`
}

function beginOf(prefix: IdPrefix): string {
  return `${prefix}${separators[prefix as keyof typeof separators] ?? '_'}`
}

/** The id of what exists once for a time and a name: it is the same each time, in the form of the others. */
export function fixedId(prefix: IdPrefix, timeMs: number, name: string): string {
  const digest = createHash('sha256').update(name).digest('hex')
  return `${beginOf(prefix)}${timeText(timeMs)}${digest.slice(0, 15)}`
}

const ours = /^[a-z]+(?:_req)?[-_](0[0-9a-z]{8})[0-9a-z]{0,15}$/

/** The creation time encoded in the prefix of a gateway id; null if the text is not such an id. */
export function createdAtMs(id: string): number | null {
  const [, time] = ours.exec(id) ?? []
  return time === undefined ? null : Number.parseInt(time, 36)
}

/** Whether one of the gateway's ids may begin with the text. */
export function mayBeginId(text: string): boolean {
  return /^[a-z]+(?:_req)?[-_](?:0[0-9a-z]*)?$/.test(text)
}
