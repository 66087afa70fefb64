import type { LearnedQualities } from '../feedback/learned-qualities.ts'
import type { FileServices } from '../files/file-services.ts'
import type { OutputHistory } from '../routing/output-history.ts'
import type { StickySessions } from '../routing/sticky-sessions.ts'
import type { GuardCalls } from '../webhooks/guard-calls.ts'
import type { StatedCosts } from './stated-costs.ts'

/** What a run of any kind needs: routing, attempts, settlement. */
export type EngineServices = FileServices & {
  stickySessions: StickySessions
  outputHistory: OutputHistory
  learnedQualities: LearnedQualities
  statedCosts: StatedCosts
  guardCalls: GuardCalls
}
