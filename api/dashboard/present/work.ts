import { GatewayError } from '../../../shared/base/errors.ts'
import { may } from '../../../shared/base/roles.ts'
import type { Platform } from '../../../shared/platform.ts'
import type { Validated } from '../../endpoint.ts'
import { type Keys, readWorkKeys } from '../queries/work.ts'
import type { WorkKey } from '../wire/jobs.ts'

/** Shared by jobs and batches: their keys, who may cancel them, and their files. */

type Work = { id: string; keyId: string; environment: 'live' | 'test' }
export type Viewer = Pick<Validated<unknown, unknown>, 'organisationId' | 'person' | 'role'>

/** Lifetime of a file URL in a response. */
const urlLifetimeMs = 3_600_000

/** The key that submitted the work, as pages show it. */
export function presentWorkKey(keys: Keys, { keyId }: Pick<Work, 'keyId'>): WorkKey | null {
  const key = keys.get(keyId)
  return key ? { id: key.id, name: key.name, prefix: key.prefix, last4: key.last4 } : null
}

/** Administrators may cancel any work; members, the work of test keys and of their own keys. */
export function mayCancel({ person, role }: Viewer, work: Work, keys: Keys): boolean {
  const isOwn = keys.get(work.keyId)?.createdById === person.id
  return work.environment === 'test' || isOwn || may(role, 'manage')
}

/** Throws 403 unless `mayCancel`. */
export async function assertMayCancel(services: Platform, viewer: Viewer, work: Work): Promise<void> {
  if (mayCancel(viewer, work, await readWorkKeys(services, [work]))) return
  throw new GatewayError(
    'insufficient_role',
    'Members can cancel work of test keys and of their own keys only. Ask an administrator of the organisation.',
  )
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
