import { unprintable } from './one-line.ts'

const maxInMail = 60

/**
 * Quotes a name for an email: one line, truncated, and broken up so that no mail client turns it into a link. It may
 * be any text: not all names have rules.
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
