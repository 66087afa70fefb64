import { type CallMonitor, timingOf } from '../engine/call-monitor.ts'
import type { FailedAttempt } from '../engine/failures.ts'
import { ProviderError } from '../providers/provider-error.ts'

/**
 * How providers say that they do not accept reasoning state which they made: "Invalid `signature` in `thinking` block",
 * "bound to a different conversation", "Thought signature is not valid", "The encrypted content could not be verified".
 */
const refusal =
  /invalid `?(?:signature|data)`?|thought[ _]signature|encrypted[ _]content|redacted_thinking|bound to a different conversation/i

/**
 * Makes a call, and makes it once more without reasoning state if the provider refuses the state in it: the client
 * would otherwise repeat the refused history at every turn. `isSent`: whether the call had state. The refused call is
 * added to `failedAttempts`.
 */
export async function withoutRefusedState<T>(
  { monitor, failedAttempts, isSent }: { monitor: CallMonitor; failedAttempts: FailedAttempt[]; isSent(): boolean },
  call: (isRefused: boolean) => Promise<T>,
): Promise<T> {
  try {
    return await call(false)
  } catch (error) {
    const isRefusal =
      error instanceof ProviderError && error.reason === 'invalid_request' && refusal.test(error.message)
    if (!isRefusal || !isSent()) throw error
    failedAttempts.push({ target: monitor.route.target, error, durationMs: monitor.elapsedMs, ...timingOf(monitor) })
    return call(true)
  }
}
