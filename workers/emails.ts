import { sendAlertEmails } from '../shared/alerts/emails.ts'
import type { Platform } from '../shared/platform.ts'
import { sendIncidentMessages } from './incident-messages.ts'
import { done, type Outcome } from './run-queue.ts'

/** Sends the alert emails that are due, or the messages about incidents to operators. */
export async function sendEmails(name: string, _data: unknown, services: Platform): Promise<Outcome> {
  if (name === 'incidents') await sendIncidentMessages(services)
  else await sendAlertEmails(services)
  return done
}
