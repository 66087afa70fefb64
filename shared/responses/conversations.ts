import { GatewayError } from '../base/errors.ts'
import { dayMs } from '../base/time.ts'
import type { FileOwner } from '../files/files.ts'
import type { Connection, TransactionStep } from '../io/db.ts'
import type { ResponsesItem } from '../kinds/responses.ts'
import { dropOnFailure } from './payloads.ts'
import { conversationNotFound } from './previous-items.ts'
import type { ResponseServices } from './response-services.ts'
import type { Conversation, ListedItem, Metadata } from './stored-conversations.ts'

/**
 * Creates a conversation, with what `beside` writes in the same transaction. Throws 400 if the organisation stores nothing,
 * 403 `quota_exceeded`.
 */
export async function createConversation(
  services: ResponseServices,
  { organisationId, environment }: FileOwner,
  { metadata, items }: { metadata: Metadata; items: readonly ResponsesItem[] },
  beside: TransactionStep<Conversation>,
): Promise<Conversation> {
  const owner = { organisationId, environment }
  const retentionDays = await assertStores(services, owner)
  return services.conversations.create(owner, { metadata, items, retentionDays }, async (tx, created) => {
    await services.files.quota.assertWithin(tx, owner)
    await beside(tx, created)
  })
}

/** Adds items to a conversation, with what `beside` writes. Throws as `createConversation` does, and 404. */
export async function addItems(
  services: ResponseServices,
  { organisationId, environment }: FileOwner,
  id: string,
  items: readonly ResponsesItem[],
  beside: (tx: Connection, added: readonly ListedItem[]) => Promise<void>,
): Promise<readonly ListedItem[]> {
  const { db, clock, files, conversations } = services
  const owner = { organisationId, environment }
  const retentionDays = await assertStores(services, owner)
  if (!(await conversations.find(id, owner))) throw conversationNotFound(id, 'id')
  const expiresAtMs = clock.now() + retentionDays * dayMs
  const prepared = await conversations.prepareItems(id, owner, items, { expiresAtMs })
  return dropOnFailure(prepared, () =>
    db.$transaction(async tx => {
      if (!(await conversations.touch(tx, id, owner, expiresAtMs))) throw conversationNotFound(id, 'id')
      await prepared.insert(tx)
      await files.quota.assertWithin(tx, owner)
      await beside(tx, prepared.listed)
      return prepared.listed
    }),
  )
}

/** Returns the retention. Throws 400 if the organisation stores nothing, 403 if its quota is used up. */
async function assertStores({ responseSettings, files }: ResponseServices, owner: FileOwner): Promise<number> {
  const { keeps, retentionDays } = await responseSettings.read(owner.organisationId)
  if (!keeps)
    throw new GatewayError(
      'unsupported_capability',
      'Conversations are not stored for this organisation: turn on "Keep responses" in the dashboard.',
    )
  await files.quota.assertRoom(owner)
  return retentionDays
}
