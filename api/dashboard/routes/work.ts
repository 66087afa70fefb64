import { GatewayError } from '../../../shared/base/errors.ts'
import type { ApiKey } from '../../../shared/generated/prisma/client.ts'
import type { Services } from '../../../shared/services.ts'
import { hasRole } from '../../auth/roles.ts'
import type { Validated } from '../../endpoint.ts'
import type { WorkDelivery, WorkKey } from '../wire/jobs.ts'

/** What jobs and batches have in common: the keys they came with, who may cancel them, their files and webhooks. */

type Work = { id: string; keyId: string; environment: 'live' | 'test' }
export type Viewer = Pick<Validated<unknown, unknown>, 'organisationId' | 'person' | 'role'>
export type Keys = ReadonlyMap<string, Pick<ApiKey, 'id' | 'name' | 'prefix' | 'last4' | 'createdById'>>

/** How long an address of a file in an answer works. */
const addressMs = 3_600_000

/** The keys that work came with, by their ids. */
export async function keysOf({ db }: Services, works: readonly Pick<Work, 'keyId'>[]): Promise<Keys> {
  const rows = await db.apiKey.findMany({
    where: { id: { in: [...new Set(works.map(({ keyId }) => keyId))] } },
    select: { id: true, name: true, prefix: true, last4: true, createdById: true },
  })
  return new Map(rows.map(row => [row.id, row]))
}

/** The key of some work as pages show it. */
export function workKey(keys: Keys, { keyId }: Pick<Work, 'keyId'>): WorkKey | null {
  const key = keys.get(keyId)
  return key ? { id: key.id, name: key.name, prefix: key.prefix, last4: key.last4 } : null
}

/** An administrator may cancel anything; a member what test keys do, and what came with a key of their own. */
export function mayCancel({ person, role }: Viewer, work: Work, keys: Keys): boolean {
  const isOwn = keys.get(work.keyId)?.createdById === person.id
  return work.environment === 'test' || isOwn || hasRole(role, 'admin')
}

/** Throws 403 where `mayCancel` says no. */
export async function assertMayCancel(services: Services, viewer: Viewer, work: Work): Promise<void> {
  if (mayCancel(viewer, work, await keysOf(services, [work]))) return
  throw new GatewayError(
    'insufficient_role',
    'Members cancel what test keys and their own keys submitted. Ask an administrator of the organisation.',
  )
}

/** The id of the organisation's key with this id or hash. Throws 404. */
export async function keyIdOf({ db }: Services, organisationId: string, key: string): Promise<string> {
  const row = await db.apiKey.findFirst({
    where: { organisationId, OR: [{ id: key }, { hash: key }] },
    select: { id: true },
  })
  if (!row) throw new GatewayError('not_found', 'There is no such key.', { param: 'key' })
  return row.id
}

/** The webhook of some work as it stands; null while there is none. */
export async function deliveryOf(
  { db }: Services,
  organisationId: string,
  work: { jobId: string } | { batchId: string },
): Promise<WorkDelivery | null> {
  return db.webhookDelivery.findFirst({
    where: { ...work, organisationId },
    orderBy: { createdAt: 'desc' },
    select: { id: true, url: true, status: true, attempts: true },
  })
}

/** An address of a stored file for the page that asks, which may know the gateway by another name than PUBLIC_URL. */
export async function addressOf(
  { blobs, clock, config }: Services,
  file: { key: string; contentType: string; filename?: string },
): Promise<string> {
  return forPage(config.publicUrl, await blobs.signedUrl(file, clock.now() + addressMs))
}

/** An address of our own without its origin; any other as it is. */
export function forPage(publicUrl: string, url: string): string {
  return url.startsWith(`${publicUrl}/`) ? url.slice(publicUrl.length) : url
}
