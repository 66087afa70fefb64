import { z } from 'zod'
import { maxNameCharacters } from './accounts.ts'

/** Control characters, line separators, and bidirectional control marks. */
const unprintable = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u
const webAddress = /:\/\/|\/\/|\bwww\.|[\p{L}\d]\.\p{L}{2,}/iu

/** A name of a person or organisation, which appears in emails to others: one line without links. */
export const nameSchema = z
  .string()
  .trim()
  .min(1)
  .max(maxNameCharacters)
  .refine(text => !unprintable.test(text), 'must be one line')
  .refine(text => !webAddress.test(text), 'must not contain a web address; put a space after a full stop')

const maxInMail = 60

/**
 * Quotes a name for an email: one line, truncated, and broken up so that no mail client turns it into a link. Also
 * sanitises names stored before these rules.
 */
export function quoteName(name: string): string {
  const line = name
    .replace(new RegExp(unprintable, 'gu'), ' ')
    .replace(/[“”"<>]/g, '')
    .replace(/([.:/@])(?=\S)/g, '$1 ')
    .replace(/\s+/g, ' ')
    .trim()
  const characters = [...line]
  return `“${characters.length > maxInMail ? `${characters.slice(0, maxInMail - 1).join('')}…` : line}”`
}
