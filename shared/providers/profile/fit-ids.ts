import { createHash } from 'node:crypto'
import type { Fitting } from './fitting.ts'

/**
 * An e-mail address or a telephone number: "user_id appears to contain an email address. Please send a uuid or hash value"
 * (https://github.com/BerriAI/litellm/issues/10106).
 */
const contact = /@|^\+?[\d\s().-]{7,}$/

/** Ids of the caller: one that is long, or tells who it is, is sent as its digest, so that equal ids stay equal. */
export function fitIds(fitting: Fitting): void {
  const { max_id_characters: maxCharacters = Number.POSITIVE_INFINITY, contact_ids: takesContacts } = fitting.profile
  if (maxCharacters === Number.POSITIVE_INFINITY && takesContacts) return
  const fields: Record<string, unknown> = fitting.body
  for (const field of ['user', 'safety_identifier', 'prompt_cache_key']) {
    const id = fields[field]
    if (typeof id === 'string' && (id.length > maxCharacters || (!takesContacts && contact.test(id))))
      fitting.set({ [field]: createHash('sha256').update(id).digest('hex') })
  }
}
