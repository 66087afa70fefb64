import { sendAlertEmails } from '../shared/alerts/emails.ts'
import type { Platform } from '../shared/platform.ts'
import { done, type Outcome } from './run-queue.ts'

/** Sends the alert emails that are due. */
export async function sendEmails(_name: string, _data: unknown, services: Platform): Promise<Outcome> {
  await sendAlertEmails(services)
  return done
}
