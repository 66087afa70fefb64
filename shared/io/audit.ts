import { isDeepStrictEqual } from 'node:util'
import { fixedId, newId } from '../base/ids.ts'
import { hourMs } from '../base/time.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Connection } from './db.ts'

/** The author of a change: a signed-in user, a provisioning key, or the operator's command line. */
export type Actor = {
  kind: 'user' | 'provisioning_key' | 'operator'
  /** Null for the command line and for the service itself. */
  id: string | null
  name: string
  /** Where the request came from; absent for the command line and for the service itself. */
  client?: ActorClient
}

export type ActorClient = { ipAddress: string; userAgent: string | null }

/** Each changed field with its values before and after, in the API's format. */
export type Changes = Record<string, [before: unknown, after: unknown]>

export type AuditEntry = {
  /** Null for what an operator changed for the whole service. */
  organisationId: string | null
  actor: Actor
  /** Object and past participle: "key.created". */
  action: string
  target?: { id: string; name: string }
  changes?: Changes
}

export const operatorActor: Actor = { kind: 'operator', id: null, name: 'operator' }

/** The fields that differ between two versions of an object; for a new object pass {} as `before`: then all fields that are set. */
export function changesBetween(before: Record<string, unknown>, after: Record<string, unknown>): Changes {
  const fields = Object.entries(after).map(([name, value]) => [name, [before[name] ?? null, value ?? null]] as const)
  return Object.fromEntries(fields.filter(([, [was, is]]) => !isDeepStrictEqual(was, is))) as Changes
}

/** Inserts an audit event within the transaction of the change itself. */
export async function audit(tx: Connection, entry: AuditEntry): Promise<void> {
  await tx.auditEvent.create({ data: rowOf(newId('aud'), entry) })
}

/** Inserts an audit event unless there is one already of this actor, action and target in the same UTC hour: for what is repeated. */
export async function auditHourly(tx: Connection, entry: AuditEntry, nowMs: number): Promise<void> {
  const { organisationId, actor, action, target } = entry
  const name = JSON.stringify([organisationId, actor.kind, actor.id, action, target?.id ?? null])
  const id = fixedId('aud', nowMs - (nowMs % hourMs), name)
  await tx.auditEvent.createMany({ data: [rowOf(id, entry)], skipDuplicates: true })
}

function rowOf(id: string, { organisationId, actor, action, target, changes }: AuditEntry) {
  return {
    id,
    organisationId,
    actorKind: actor.kind,
    actorId: actor.id,
    actorName: actor.name,
    action,
    targetId: target?.id ?? null,
    targetName: target?.name ?? null,
    ipAddress: actor.client?.ipAddress ?? null,
    userAgent: actor.client?.userAgent ?? null,
    changes: changes && Object.keys(changes).length > 0 ? (changes as Prisma.InputJsonObject) : Prisma.DbNull,
  }
}
