import type { BulkContext } from '../engine/failover.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Forwarded } from '../providers/contract.ts'
import type { Features } from '../routing/features.ts'

/** One validated request for an answer. */
export type ChatRunInput<K extends DirectKind> = {
  kind: K
  key: ResolvedKey
  body: DirectKinds[K]['request']
  raw: Buffer | null
  features: Features
  requestId: string
  /** The caller's name of the conversation; its requests go to the same target. */
  session: string | null
  stream: boolean
  includeUsage: boolean
  /** For `messages`: what the client sent beside the body. */
  forwarded?: Forwarded
  /** Context of delayed work; null for interactive requests. */
  bulk: BulkContext | null
}

/** Prefixes of answer ids. */
export const idPrefix = {
  chat: 'chatcmpl',
  completion: 'cmpl',
  embedding: 'emb',
  messages: 'msg',
  responses: 'resp',
} as const
