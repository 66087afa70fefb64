import { randomFillSync } from 'node:crypto'

const alphabet = '0123456789abcdefghijklmnopqrstuvwxyz'

// Random bytes come from the kernel in blocks: one call per id would be a tenth of a request's whole cost.
const block = new Uint8Array(4096)
let used = block.length

/** Sortable random text: 9 characters of time (base 36 milliseconds) and 15 random ones (77 bits). */
function sortable(): string {
  if (used + 15 > block.length) {
    randomFillSync(block)
    used = 0
  }
  let text = Date.now().toString(36).padStart(9, '0')
  for (const end = used + 15; used < end; used++) text += alphabet[block[used]! % 36]
  return text
}

const separators = { chatcmpl: '-', cmpl: '-', file: '-' } as const
export type IdPrefix =
  | keyof typeof separators
  | 'job'
  | 'mesh'
  | 'ajob'
  | 'batch'
  | 'batch_req'
  | 'req'
  | 'evt'
  | 'upl'
  | 'mem'
  | 'inv'
  | 'aud'
  | 'alr'
  | 'top'
  | 'org'
  | 'key'
  | 'emb'
  | 'img'
  | 'speech'
  | 'trs'
  | 'music'
  | 'sfx'
  | 'dep'
  | 'user'
  | 'rt'
  | 'sess'
  | 'tfa'
  | 'pass'

/** A new id: prefix and a sortable random part (contract §1). */
export function newId(prefix: IdPrefix): string {
  return `${prefix}${separators[prefix as keyof typeof separators] ?? '_'}${sortable()}`
}

const ours = /^[a-z]+(?:_req)?[-_](0[0-9a-z]{8})[0-9a-z]{0,15}$/

/** When an id of ours was made, which its beginning is enough to tell; null where it does not look like one. */
export function madeAtMs(id: string): number | null {
  const [, time] = ours.exec(id) ?? []
  return time === undefined ? null : Number.parseInt(time, 36)
}
