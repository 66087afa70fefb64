import { randomBytes } from 'node:crypto'

const alphabet = '0123456789abcdefghijklmnopqrstuvwxyz'

/** Sortable random text: 9 characters of time (base 36 milliseconds) and 15 random ones (77 bits). */
function sortable(): string {
  let text = Date.now().toString(36).padStart(9, '0')
  for (const byte of randomBytes(15)) text += alphabet[byte % 36]
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
  | 'org'
  | 'key'
  | 'emb'
  | 'dep'
  | 'user'

/** A new id: prefix and a sortable random part (contract §1). */
export function newId(prefix: IdPrefix): string {
  return `${prefix}${separators[prefix as keyof typeof separators] ?? '_'}${sortable()}`
}
