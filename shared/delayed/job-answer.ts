import type { GatewayError } from '../base/errors.ts'
import type { ChatRunInput } from '../chat/run-input.ts'
import type { BufferedResponse } from '../engine/buffered-response.ts'
import type { HoldAdmission } from './hold-admission.ts'

/** What becomes of the answer to a delayed request. */
export type JobAnswer = {
  /** Receives the answer. */
  readonly client: BufferedResponse
  readonly run: Pick<ChatRunInput<'responses'>, 'session' | 'stream' | 'storage'>
  readonly isComplete: boolean
  /** True once a part of it was shown: its call is never repeated. */
  readonly isShown: boolean
  /** The failure that ended its stream before anything of it was shown; null if there is none. */
  readonly failure: GatewayError | null
  /**
   * Stores the complete answer, and ends the job with it; may be repeated. False when the job was over or cancelled.
   * Throws what the stores throw.
   */
  save(admission: HoldAdmission): Promise<boolean>
  /** Notifies those who wait for the answer, once the job has ended. Never throws. */
  close(): Promise<void>
}
