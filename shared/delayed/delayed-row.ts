import { parseStoredRequest } from '../base/exact-numbers.ts'
import { delayedKind, type Job } from '../jobs/jobs.ts'
import type { DirectKinds } from '../kinds/index.ts'
import type { Features } from '../routing/features.ts'
import { requestFormatOf } from '../routing/request-formats.ts'

/** A delayed job without its request, which may be long and only its run needs. */
export type DelayedJob = Omit<Job, 'input'>

/** The kinds of requests that can be delayed. */
export type DelayedKind = 'chat' | 'responses' | 'messages'

/** The request of a delayed job, as stored in its row until the end. */
export type DelayedInput = {
  /** Absent in rows of earlier releases, which are chat completions. */
  kind?: DelayedKind
  /** The body as JSON text: Postgres' own JSON cannot hold every text. */
  body: string
  /** Parts per million off the price. */
  discountPpm: number
  /** Output tokens that the hold covers, and whether that is fewer than the request's limit. */
  outputTokens: number
  clamped: boolean
}

/** Whether a job makes the stored response of its id, in the background: only that response shows it. */
export function isBackground({ id }: Pick<Job, 'id'>): boolean {
  return id.startsWith(responsePrefix)
}

export const responsePrefix = 'resp_'

/** Whether a job has ended for its owner. The call of a cancelled delayed job may still be settled. */
export function hasEnded({
  kind,
  stage,
  cancelRequestedAt,
}: Pick<Job, 'kind' | 'stage' | 'cancelRequestedAt'>): boolean {
  return stage === 'over' || (kind === delayedKind && cancelRequestedAt !== null)
}

/** The target of a job's call, and whether the answer is streamed. */
export type CallTarget = { model: string; provider: string; isStreamed: boolean; isOwn?: boolean }

/**
 * `settles`: the worker settles the call when the job is cancelled. In calls that a worker of an earlier release makes,
 * it and `isStreamed` are absent.
 */
export type NotedCall = Omit<CallTarget, 'isStreamed'> & { atMs: number; isStreamed?: boolean; settles?: true }

/** The call of a job that may have reached a provider; null = there is none. */
export function callOf({ operation }: Pick<Job, 'operation'>): NotedCall | null {
  return (operation as { call?: NotedCall } | null)?.call ?? null
}

/** The number of provider failures of a job. */
export function failuresOf({ operation }: Pick<Job, 'operation'>): number {
  return (operation as { failures: number } | null)?.failures ?? 0
}

/** The request of a delayed job, with its bytes. */
type DelayedWork = {
  kind: DelayedKind
  body: DirectKinds[DelayedKind]['request']
  raw: Buffer
  features: Features
}

/** Reads the request of a delayed job from its row. */
export function readWork({ input }: Pick<Job, 'input'>): DelayedWork {
  const { kind = 'chat', body: text } = input as DelayedInput
  const body = parseStoredRequest(text) as DirectKinds[DelayedKind]['request']
  const raw = Buffer.from(text)
  return { kind, body, raw, features: requestFormatOf(kind).readFeatures(body, raw.length) }
}
