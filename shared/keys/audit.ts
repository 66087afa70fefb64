import { isDeepStrictEqual } from 'node:util'
import { newId } from '../base/ids.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'

/** Who changes something: a signed-in person, a provisioning key, or the operator's command line. */
export type Actor = { kind: 'user' | 'provisioning_key' | 'operator'; id: string | null; name: string }

/** A field before and after, as the API writes it. */
export type Changes = Record<string, [before: unknown, after: unknown]>

export type AuditEntry = {
  organisationId: string
  actor: Actor
  /** "key.created": the thing, and what became of it. */
  action: string
  target?: { id: string; name: string }
  changes?: Changes
}

export const operatorActor: Actor = { kind: 'operator', id: null, name: 'operator' }

/** The fields of a thing that an edit changed; of a new thing, whose `before` is {}, those that are set. */
export function changesBetween(before: Record<string, unknown>, after: Record<string, unknown>): Changes {
  const fields = Object.entries(after).map(([name, value]) => [name, [before[name] ?? null, value ?? null]] as const)
  return Object.fromEntries(fields.filter(([, [was, is]]) => !isDeepStrictEqual(was, is))) as Changes
}

/** Notes who did what, within the transaction that does it. */
export async function audit(
  tx: Connection,
  { organisationId, actor, action, target, changes }: AuditEntry,
): Promise<void> {
  await tx.auditEvent.create({
    data: {
      id: newId('aud'),
      organisationId,
      actorKind: actor.kind,
      actorId: actor.id,
      actorName: actor.name,
      action,
      targetId: target?.id ?? null,
      targetName: target?.name ?? null,
      changes: changes && Object.keys(changes).length > 0 ? (changes as Prisma.InputJsonObject) : Prisma.DbNull,
    },
  })
}
