import { hash } from 'node:crypto'
import { GatewayError } from '../../shared/base/errors.ts'
import { isUniqueViolation } from '../../shared/io/db.ts'
import type { Services } from '../../shared/services.ts'

export type Kept = { status: number; headers: Record<string, string>; body: string }

/** Longer than any request may take, so that only a crashed one loses its lock to another. */
const lockMs = 15 * 60_000
const keepMs = 24 * 3_600_000

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
 * what it answers. A request that fails keeps nothing, so that it can be tried again. Throws 409 (contract §1).
 */
export async function once(
  services: Services,
  organisationId: string,
  key: string,
  request: Buffer[],
  work: () => Promise<Kept | null>,
): Promise<Kept | null> {
  const { db, clock } = services
  const id = { organisationId_key: { organisationId, key } }
  const bodyHash = hash('sha256', Buffer.concat(request), 'hex')
  const kept = await claim(services, organisationId, key, bodyHash)
  if (kept) return kept
  try {
    const answer = await work()
    if (!answer) await db.idempotencyKey.deleteMany({ where: { organisationId, key } })
    else {
      const { status, headers, body } = answer
      await db.idempotencyKey.update({
        where: id,
        data: { status, headers, body: Buffer.from(body), lockedUntil: null, createdAt: new Date(clock.now()) },
      })
    }
    return null
  } catch (error) {
    await db.idempotencyKey.deleteMany({ where: { organisationId, key } })
    throw error
  }
}

async function claim(
  { db, clock }: Services,
  organisationId: string,
  key: string,
  bodyHash: string,
): Promise<Kept | null> {
  const now = clock.now()
  const lockedUntil = new Date(now + lockMs)
  await db.idempotencyKey.deleteMany({
    where: {
      organisationId,
      key,
      OR: [{ createdAt: { lt: new Date(now - keepMs) } }, { lockedUntil: { lt: new Date(now) } }],
    },
  })
  try {
    await db.idempotencyKey.create({ data: { organisationId, key, bodyHash, lockedUntil, createdAt: new Date(now) } })
    return null
  } catch (error) {
    if (!isUniqueViolation(error)) throw error
  }
  const row = await db.idempotencyKey.findUnique({ where: { organisationId_key: { organisationId, key } } })
  if (row && row.bodyHash !== bodyHash) {
    throw new GatewayError(
      'idempotency_key_reused',
      'This Idempotency-Key was used with another request. Use a new key.',
    )
  }
  if (!row || row.status === null) {
    throw new GatewayError(
      'idempotency_in_progress',
      'The first request with this Idempotency-Key is still running. Try again shortly.',
      { headers: { 'retry-after': '1' } },
    )
  }
  return {
    status: row.status,
    headers: row.headers as Record<string, string>,
    body: Buffer.from(row.body ?? []).toString(),
  }
}
