import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { GatewayError } from '../../shared/base/errors.ts'
import type { IdempotencyKey } from '../../shared/generated/prisma/client.ts'
import { bytesOf } from '../../shared/io/bytes.ts'
import type { Services } from '../../shared/services.ts'

/** An answer; one that is not JSON has its `content-type` among its headers. */
export type Kept = { status: number; headers: Record<string, string>; body: string | Buffer }

/** Whose answer it is, and how it is kept. */
export type Keeping = {
  organisationId: string
  /** As the row has it. */
  key: string
  environment: 'live' | 'test'
  /** The caller's own secret, when the answer holds a secret that must not be readable in the database; else null. */
  sealWith: string | null
}

/** How long an answer is kept. */
export const keepMs = 24 * 3_600_000
/** A longer answer is kept in storage. */
const maxInDatabaseBytes = 1024 * 1024

type Row = Pick<IdempotencyKey, 'status' | 'headers' | 'body' | 'storageKey'>
type Place = { body: Uint8Array<ArrayBuffer> } | { storageKey: string } | object

/** The columns of an answer but for its body. */
export function headOf({ status, headers }: Kept): { status: number; headers: Record<string, string> } {
  // Rate figures are of their moment: a replay has its own.
  const lasting = Object.entries(headers).filter(([name]) => !name.startsWith('x-ratelimit-'))
  return { status, headers: Object.fromEntries(lasting) }
}

/** The bytes of an answer as they are kept: sealed where they hold a secret. */
export function bytesToKeep({ body }: Kept, keeping: Keeping): Buffer {
  const plain = Buffer.from(body)
  return keeping.sealWith === null ? plain : seal(plain, sealingKey(keeping.sealWith, keeping))
}

/** Keeps bytes where there is room for them: in the row, in storage if they are many, nowhere when the quota is used up. */
export async function place({ files, clock, log }: Services, keeping: Keeping, bytes: Buffer): Promise<Place> {
  const { organisationId, environment } = keeping
  const owner = { organisationId, environment }
  try {
    if (bytes.length <= maxInDatabaseBytes)
      return (await files.quota.hasRoom(owner, bytes.length)) ? { body: new Uint8Array(bytes) } : {}
    const file = { ...owner, purpose: 'answer', filename: 'answer', contentType: 'application/octet-stream' } as const
    const { storageKey } = await files.store(bytesOf(bytes), { ...file, expiresAtMs: clock.now() + keepMs })
    return { storageKey }
  } catch (error) {
    log.warn({ err: error }, 'there is no room for an answer to be kept for its Idempotency-Key')
    return {}
  }
}

/** The answer that a row keeps. Throws 409 when it could not be kept, or is not the caller's to read. */
export async function readKept(services: Services, row: Row, keeping: Keeping): Promise<Kept> {
  const bytes = row.body ? Buffer.from(row.body) : await storedBody(services, row.storageKey)
  return {
    status: row.status!,
    headers: row.headers as Record<string, string>,
    body: keeping.sealWith === null ? bytes : unseal(bytes, sealingKey(keeping.sealWith, keeping)),
  }
}

async function storedBody({ blobs }: Services, storageKey: string | null): Promise<Buffer> {
  const blob = storageKey === null ? null : await blobs.read(storageKey)
  if (blob) return buffer(blob.stream)
  throw reused(
    'This request was answered, but its answer could not be kept. It is not run again: use a new key for that.',
  )
}

const cipher = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16

/** A key that nobody can make from what the database holds, as it has only the hash of `secret`. */
function sealingKey(secret: string, { organisationId, key }: Keeping): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, `${organisationId} ${key}`, 'kept answer', 32))
}

function seal(plain: Buffer, key: Buffer): Buffer {
  const nonce = randomBytes(nonceBytes)
  const sealing = createCipheriv(cipher, key, nonce)
  const sealed = Buffer.concat([sealing.update(plain), sealing.final()])
  return Buffer.concat([nonce, sealing.getAuthTag(), sealed])
}

function unseal(bytes: Buffer, key: Buffer): string {
  const [nonce, tag] = [bytes.subarray(0, nonceBytes), bytes.subarray(nonceBytes, nonceBytes + tagBytes)]
  try {
    const opening = createDecipheriv(cipher, key, nonce).setAuthTag(tag)
    return opening.update(bytes.subarray(nonceBytes + tagBytes), undefined, 'utf8') + opening.final('utf8')
  } catch {
    throw reused(
      'The first answer to this Idempotency-Key holds a secret, which only the key that asked for it can see again.',
    )
  }
}

/** The refusal of a key that was used before. */
export function reused(message: string): GatewayError {
  return new GatewayError('idempotency_key_reused', message)
}
