import type { ApiKey } from '../../../shared/generated/prisma/client.ts'
import type { Platform } from '../../../shared/platform.ts'
import type { WorkDelivery } from '../wire/jobs.ts'

/** The keys that submitted requests, jobs or batches, by id. */
export type Keys = ReadonlyMap<string, Pick<ApiKey, 'id' | 'name' | 'prefix' | 'last4' | 'createdById'>>

/** Reads the keys that submitted the work. */
export async function readWorkKeys({ db }: Platform, works: readonly { keyId: string }[]): Promise<Keys> {
  const rows = await db.apiKey.findMany({
    where: { id: { in: [...new Set(works.map(({ keyId }) => keyId))] } },
    select: { id: true, name: true, prefix: true, last4: true, createdById: true },
  })
  return new Map(rows.map(row => [row.id, row]))
}

/** The id of the organisation's key with this id, or the hash of a present or former secret. Throws 404. */
export async function findKeyId({ keys }: Platform, organisationId: string, key: string): Promise<string> {
  const { id } = await keys.find(organisationId, key)
  return id
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
