import { createHash } from 'node:crypto'

/** Which names a provider takes; `other`: what it does not take in them, `prefix`: what may stand before any of them. */
export type NameForm = { pattern: RegExp; other: RegExp; maxCharacters: number; prefix: string }

const digestCharacters = 8

/** A name in the form that a provider takes: with a digest, so that two names stay two, and the same for the same name. */
export function digestedName(name: string, { pattern, other, maxCharacters, prefix }: NameForm): string {
  if (pattern.test(name)) return name
  const digest = createHash('sha256').update(name).digest('hex').slice(0, digestCharacters)
  const start = name.replace(other, '_')
  const cut = (text: string) => `${text.slice(0, maxCharacters - digestCharacters - 1)}_${digest}`
  return pattern.test(cut(start)) ? cut(start) : cut(`${prefix}${start}`)
}
