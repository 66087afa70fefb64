import { z } from 'zod'
import { mostNameCharacters } from './accounts.ts'

/** Control characters, line separators, and marks that turn the direction of what follows. */
const unprintable = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u
const webAddress = /:\/\/|\/\/|\bwww\.|[\p{L}\d]\.\p{L}{2,}/iu

/** A name of a person or an organisation, which stands in emails to others: one line that leads nowhere. */
export const nameSchema = z
  .string()
  .trim()
  .min(1)
  .max(mostNameCharacters)
  .refine(text => !unprintable.test(text), 'must be one line')
  .refine(text => !webAddress.test(text), 'must not contain a web address; put a space after a full stop')

const maxInMail = 60

/**
 * A name as it stands in an email, quoted: in one line, short, and so that no mail program makes a link of it. Names that were
 * given before the rules for them are held to these as well.
 */
export function quoted(name: string): string {
  const line = name
    .replace(new RegExp(unprintable, 'gu'), ' ')
    .replace(/[“”"<>]/g, '')
    .replace(/([.:/@])(?=\S)/g, '$1 ')
    .replace(/\s+/g, ' ')
    .trim()
  const characters = [...line]
  return `“${characters.length > maxInMail ? `${characters.slice(0, maxInMail - 1).join('')}…` : line}”`
}
