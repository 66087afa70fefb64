import type { KeySecretAnswer } from '../wire/keys.ts'
import { call } from './api.ts'

/** The new first key of an organisation, in the memory of this page only, until it was copied. */
let shown: { organisationId: string; answer: KeySecretAnswer } | null = null

/** Creates the first test key of an organisation. Throws an ApiError. */
export async function createFirstKey(organisationId: string): Promise<KeySecretAnswer> {
  const answer = await call<KeySecretAnswer>(`/dashboard/api/organisations/${organisationId}/first-key`, {
    method: 'POST',
  })
  shown = { organisationId, answer }
  return answer
}

/** The first key of an organisation with its secret, if it was created in this page and is not yet copied. */
export function readFirstKey(organisationId: string): KeySecretAnswer | null {
  return shown?.organisationId === organisationId ? shown.answer : null
}

export function forgetFirstKey(): void {
  shown = null
}

const keptName = (organisationId: string) => `headgate-secret-kept:${organisationId}`

/** Notes, in this browser, that the user has the secret of a key of an organisation. */
export function noteSecretKept(organisationId: string): void {
  localStorage.setItem(keptName(organisationId), 'yes')
}

/** Whether the user said here that a secret was copied. A secret that was lost with its page is kept nowhere. */
export function isSecretKept(organisationId: string): boolean {
  return localStorage.getItem(keptName(organisationId)) !== null
}
