import { createCipheriv, createDecipheriv, hash, hkdfSync, randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { GatewayError } from '../../shared/base/errors.ts'
import { bytesOf } from '../../shared/io/bytes.ts'
import { isUniqueViolation } from '../../shared/io/db.ts'
import type { Services } from '../../shared/services.ts'

/** An answer; one that is not JSON has its `content-type` among its headers. */
export type Kept = { status: number; headers: Record<string, string>; body: string | Buffer }

/** A request as idempotency sees it. */
export type Repeatable = {
  organisationId: string
  /** The client's `Idempotency-Key`. */
  key: string
  /** Which kind of API key sent it: a test key never gets a live answer again, nor the other way round. */
  caller: 'live' | 'test' | 'provisioning'
  /** Everything that must be the same for it to be the same request. */
  content: Buffer[]
  /** The caller's own secret, when the answer holds a secret that must not be readable in the database; else null. */
  sealWith: string | null
}

/** Longer than any request may take, so that only a crashed one loses its lock to another. */
const lockMs = 15 * 60_000
const keepMs = 24 * 3_600_000
/** A longer answer is kept in storage. */
const maxInDatabaseBytes = 1024 * 1024

/** The `Idempotency-Key` of a request, if it sent one. Throws 400 when it is too long. */
export function idempotencyKeyOf(header: string | string[] | undefined): string | null {
  if (header === undefined) return null
  if (typeof header !== 'string' || header.length < 1 || header.length > 255) {
    throw new GatewayError('invalid_request', 'Idempotency-Key must have 1 to 255 characters.', {
      param: 'Idempotency-Key',
    })
  }
  return header
}

/**
 * Runs a request once per organisation and key: gives the first answer again when it is there, else runs `work` and keeps
 * what it answers, before anybody sees it. A request that fails keeps nothing, so that it can be tried again; so does one
 * whose `work` gives null. Throws 409 (contract §1).
 */
export async function once(
  services: Services,
  request: Repeatable,
  work: () => Promise<Kept | null>,
): Promise<{ answer: Kept | null; replayed: boolean }> {
  const id = { organisationId: request.organisationId, key: `${request.caller}:${request.key}` }
  const kept = await claim(services, id, request)
  if (kept) return { answer: kept, replayed: true }
  try {
    const answer = await work()
    if (answer) await keep(services, id, request, answer)
    else await forget(services, id)
    return { answer, replayed: false }
  } catch (error) {
    await forget(services, id)
    throw error
  }
}

type Id = { organisationId: string; key: string }

async function claim(services: Services, id: Id, request: Repeatable): Promise<Kept | null> {
  const { db, clock } = services
  const now = clock.now()
  const bodyHash = hash('sha256', Buffer.concat(request.content), 'hex')
  const lockedUntil = new Date(now + lockMs)
  await db.idempotencyKey.deleteMany({
    where: { ...id, OR: [{ createdAt: { lt: new Date(now - keepMs) } }, { lockedUntil: { lt: new Date(now) } }] },
  })
  try {
    await db.idempotencyKey.create({ data: { ...id, bodyHash, lockedUntil, createdAt: new Date(now) } })
    return null
  } catch (error) {
    if (!isUniqueViolation(error)) throw error
  }
  const row = await db.idempotencyKey.findUnique({ where: { organisationId_key: id } })
  if (row && row.bodyHash !== bodyHash) {
    throw reused('This Idempotency-Key was used with another request. Use a new key.')
  }
  if (!row || row.status === null) {
    throw new GatewayError(
      'idempotency_in_progress',
      'The first request with this Idempotency-Key is still running. Try again shortly.',
      { headers: { 'retry-after': '1' } },
    )
  }
  const body = row.body ? Buffer.from(row.body) : await storedBody(services, row.storageKey)
  return {
    status: row.status,
    headers: row.headers as Record<string, string>,
    body: request.sealWith === null ? body : unseal(body, sealingKey(request.sealWith, id)),
  }
}

async function storedBody({ blobs }: Services, storageKey: string | null): Promise<Buffer> {
  const blob = storageKey === null ? null : await blobs.read(storageKey)
  if (blob) return buffer(blob.stream)
  throw reused(
    'This request was answered, but its answer could not be kept. It is not run again: use a new key for that.',
  )
}

/** Keeps a body where there is room for it: in the row, in storage if it is long, nowhere when the quota is used up. */
async function placed(
  { files, clock, log }: Services,
  { organisationId, caller }: Repeatable,
  bytes: Buffer,
): Promise<{ body: Uint8Array<ArrayBuffer> } | { storageKey: string } | object> {
  const owner = { organisationId, environment: caller === 'test' ? 'test' : 'live' } as const
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

async function keep(services: Services, id: Id, request: Repeatable, answer: Kept): Promise<void> {
  const { db, clock, log } = services
  const { status, body } = answer
  // Rate figures are of their moment: a replay has its own.
  const lasting = Object.entries(answer.headers).filter(([name]) => !name.startsWith('x-ratelimit-'))
  const headers = Object.fromEntries(lasting)
  const plain = Buffer.from(body)
  const bytes = request.sealWith === null ? plain : seal(plain, sealingKey(request.sealWith, id))
  const place = await placed(services, request, bytes)
  const data = { status, headers, ...place, lockedUntil: null, createdAt: new Date(clock.now()) }
  try {
    await db.idempotencyKey.update({ where: { organisationId_key: id }, data })
  } catch (error) {
    // The work is done and paid for: its answer matters more than the chance to give it again.
    log.warn({ err: error }, 'an answer could not be kept for its Idempotency-Key')
  }
}

async function forget({ db, log }: Services, id: Id): Promise<void> {
  try {
    await db.idempotencyKey.deleteMany({ where: id })
  } catch (error) {
    log.warn({ err: error }, 'an Idempotency-Key stays locked until its time is over')
  }
}

const cipher = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16

/** A key that nobody can make from what the database holds, as it has only the hash of `secret`. */
function sealingKey(secret: string, { organisationId, key }: Id): Buffer {
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

function reused(message: string): GatewayError {
  return new GatewayError('idempotency_key_reused', message)
}
