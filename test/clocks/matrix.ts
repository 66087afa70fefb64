import { dayMs } from '../../shared/base/time.ts'
import { ClockedStack } from '../support/clocks/clocked-stack.ts'
import { Receiver } from '../support/webhooks/receiver.ts'
import { type Fault, runCell, type Steps } from './cell.ts'
import { startProviders } from './providers.ts'
import { works } from './works/all.ts'

/** How far a clock steps: seconds as of NTP, minutes as of a resumed machine, more than a year as of an empty battery. */
export const offsetsMs = [5_000, -5_000, 90_000, -90_000, 600_000, -600_000, 400 * dayMs]

const env = {
  ALLOW_PRIVATE_URLS: 'true',
  ENCRYPTION_KEY: 'an encryption key of the clock runs',
  SIGNING_SECRET: 'a signing secret of the clock runs, long enough',
  // Calls of clients that left are soon cut off, so that their bill is an estimate.
  UPSTREAM_READ_ON_MS: '500',
  JOB_HOLD_BACK_1H_SECONDS: '0',
  TRUSTED_PROXIES: '1',
}

/** Runs cells one after another on one stack, and on a new one after a cell with faults. */
export async function runCells(
  cells: readonly Steps[],
  tell: (steps: Steps, faults: readonly Fault[], tookMs: number) => void,
): Promise<void> {
  const [providers, receiver] = [await startProviders(), await Receiver.start()]
  let stack: ClockedStack | null = null
  try {
    for (const steps of cells) {
      const startedMs = performance.now()
      stack ??= await ClockedStack.start({ ...env, ...providers.env })
      let faults = await runCell({ stack, providers, receiver }, steps, works)
      if (faults.some(({ when }) => when === 'before')) {
        // The clocks were still right: a machine with too much to do, which gets a second try.
        await stack.close()
        stack = await ClockedStack.start({ ...env, ...providers.env })
        faults = await runCell({ stack, providers, receiver }, steps, works)
      }
      tell(steps, faults, performance.now() - startedMs)
      if (faults.length === 0) continue
      await stack.close()
      stack = null
    }
  } finally {
    await stack?.close()
    await Promise.all([providers.close(), receiver.close()])
  }
}
