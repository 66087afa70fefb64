import type { Services } from '../shared/open-services.ts'
import { done, type Outcome } from './run-queue.ts'

/** Charges the saved cards of organisations whose balance is low, and settles what is open; nothing where payments are off. */
export async function topUpBalances(_name: string, _data: unknown, { topUps }: Services): Promise<Outcome> {
  await topUps.charges?.run()
  await topUps.automatic?.finishCardPages()
  return done
}
