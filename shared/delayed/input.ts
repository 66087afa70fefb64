import type { Job } from '../jobs/jobs.ts'
import type { DirectKinds } from '../kinds/index.ts'
import type { Features } from '../routing/features.ts'
import { requestFormatOf } from '../routing/request-formats.ts'
import type { DelayedInput, DelayedKind } from './delayed-row.ts'

/** The request of a delayed job, with its bytes. */
export type DelayedWork = {
  kind: DelayedKind
  body: DirectKinds[DelayedKind]['request']
  raw: Buffer
  features: Features
}

/** Reads the request of a delayed job from its row. */
export function readWork({ input }: Pick<Job, 'input'>): DelayedWork {
  const { kind = 'chat', body: text } = input as DelayedInput
  const body = JSON.parse(text) as DirectKinds[DelayedKind]['request']
  const raw = Buffer.from(text)
  return { kind, body, raw, features: requestFormatOf(kind).readFeatures(body, raw.length) }
}
