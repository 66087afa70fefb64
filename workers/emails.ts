import { emailAlerts } from '../shared/alerts/emails.ts'
import type { Services } from '../shared/services.ts'
import { done, type Outcome } from './run.ts'

/** Sends the emails that are owed by now. */
export async function emails(_name: string, _data: unknown, services: Services): Promise<Outcome> {
  await emailAlerts(services)
  return done
}
