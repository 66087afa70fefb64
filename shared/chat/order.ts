import type { Known } from '../keys/policies.ts'
import type { Scope } from '../keys/policy.ts'
import type { Features } from '../kinds/features.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Bulk } from './failover.ts'

/** One request for an answer, already validated. */
export type Order<K extends DirectKind> = {
  kind: K
  known: Known
  scope: Scope
  body: DirectKinds[K]['request']
  raw: Buffer | null
  features: Features
  requestId: string
  /** What the caller names the conversation; its requests stay where they were served. */
  session: string | null
  stream: boolean
  includeUsage: boolean
  /** Of delayed work, which nobody waits for; null when somebody does. */
  bulk: Bulk | null
}

/** How the ids of answers begin. */
export const idPrefix = { chat: 'chatcmpl', completion: 'cmpl', embedding: 'emb' } as const
