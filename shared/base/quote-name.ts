/** Control characters, line separators, and bidirectional control marks. */
export const unprintable = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u

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
