import { GatewayError } from '../../../shared/base/errors.ts'
import type { ApiKey } from '../../../shared/generated/prisma/client.ts'
import type { Platform } from '../../../shared/platform.ts'
import { hasRole } from '../../auth/roles.ts'
import type { Validated } from '../../endpoint.ts'
import type { WorkDelivery, WorkKey } from '../wire/jobs.ts'

/** Shared by jobs and batches: their keys, who may cancel them, their files and webhooks. */

type Work = { id: string; keyId: string; environment: 'live' | 'test' }
export type Viewer = Pick<Validated<unknown, unknown>, 'organisationId' | 'person' | 'role'>
export type Keys = ReadonlyMap<string, Pick<ApiKey, 'id' | 'name' | 'prefix' | 'last4' | 'createdById'>>

/** Lifetime of a file URL in a response. */
const urlLifetimeMs = 3_600_000

/** The keys that submitted the work, by id. */
export async function readWorkKeys({ db }: Platform, works: readonly Pick<Work, 'keyId'>[]): Promise<Keys> {
  const rows = await db.apiKey.findMany({
    where: { id: { in: [...new Set(works.map(({ keyId }) => keyId))] } },
    select: { id: true, name: true, prefix: true, last4: true, createdById: true },
  })
  return new Map(rows.map(row => [row.id, row]))
}

/** The key that submitted the work, as pages show it. */
export function presentWorkKey(keys: Keys, { keyId }: Pick<Work, 'keyId'>): WorkKey | null {
  const key = keys.get(keyId)
  return key ? { id: key.id, name: key.name, prefix: key.prefix, last4: key.last4 } : null
}

/** Administrators may cancel any work; members, the work of test keys and of their own keys. */
export function mayCancel({ person, role }: Viewer, work: Work, keys: Keys): boolean {
  const isOwn = keys.get(work.keyId)?.createdById === person.id
  return work.environment === 'test' || isOwn || hasRole(role, 'admin')
}

/** Throws 403 unless `mayCancel`. */
export async function assertMayCancel(services: Platform, viewer: Viewer, work: Work): Promise<void> {
  if (mayCancel(viewer, work, await readWorkKeys(services, [work]))) return
  throw new GatewayError(
    'insufficient_role',
    'Members can cancel work of test keys and of their own keys only. Ask an administrator of the organisation.',
  )
}

/** The id of the organisation's key with this id or hash. Throws 404. */
export async function findKeyId({ db }: Platform, organisationId: string, key: string): Promise<string> {
  const row = await db.apiKey.findFirst({
    where: { organisationId, OR: [{ id: key }, { hash: key }] },
    select: { id: true },
  })
  if (!row) throw new GatewayError('not_found', 'No such key.', { param: 'key' })
  return row.id
}

/** The current state of the work's webhook; null if there is none. */
export async function readDelivery(
  { db }: Platform,
  organisationId: string,
  work: { jobId: string } | { batchId: string },
): Promise<WorkDelivery | null> {
  return db.webhookDelivery.findFirst({
    where: { ...work, organisationId },
    orderBy: { createdAt: 'desc' },
    select: { id: true, url: true, status: true, attempts: true },
  })
}

/** The URL of a stored file for the page, which may reach the gateway under another host than PUBLIC_URL. */
export async function fileUrlForPage(
  { blobs, clock, config }: Platform,
  file: { key: string; contentType: string; filename?: string },
): Promise<string> {
  return rebaseUrl(config.publicUrl, await blobs.signedUrl(file, clock.now() + urlLifetimeMs))
}

/** Strips the origin from URLs of our own; leaves others unchanged. */
export function rebaseUrl(publicUrl: string, url: string): string {
  return url.startsWith(`${publicUrl}/`) ? url.slice(publicUrl.length) : url
}
