import { redactMessage } from '../base/redact.ts'

/** Texts that look like a credential: providers quote parts of the key they refuse. */
const credential = /\b(?:sk|pk|rk|key|api|bearer|token)[-_ :=]+[\w*.-]{6,}|\b[A-Za-z0-9_*-]{24,}\b/gi

const maxMessageLength = 300

/** The beginning of a provider's message, without anything that looks like a credential. */
export function redactCredentials(message: string): string {
  return redactMessage(message).replace(credential, '…').slice(0, maxMessageLength)
}
