import { checks, type DetectorType, type Guardrails, type Side } from '../keys/guardrails.ts'
import { contextLength, findMatches, isMatch, type Match, tailStart } from './detectors.ts'
import { Placeholders } from './placeholders.ts'
import { readText } from './read-text.ts'

/** How a text is read: `isJson` = a part of JSON, whose escapes are no text; `isSealed` = its model verifies it when it comes back. */
export type TextForm = { isJson: boolean; isSealed: boolean }

/** The detectors of one side, and the placeholders that they share with those of the other. */
export class TextGuard {
  readonly blocked: ReadonlySet<DetectorType>
  readonly masked: ReadonlySet<DetectorType>
  readonly placeholders: Placeholders
  readonly #types: ReadonlySet<DetectorType>
  readonly #side: Side
  /** How many values were masked, by type. */
  readonly counts = new Map<DetectorType, number>()
  /** Whether what is masked counts. */
  #isCounting = true

  constructor({ detectors }: Pick<Guardrails, 'detectors'>, side: Side, placeholders: Placeholders) {
    const own = detectors.filter(detector => checks(detector, side))
    const typesOf = (action: string) => new Set(own.filter(one => one.action === action).map(({ type }) => type))
    this.blocked = typesOf('block')
    this.masked = typesOf('mask')
    this.#types = new Set(own.map(({ type }) => type))
    this.#side = side
    this.placeholders = placeholders
  }

  /** Whether it detects anything. */
  get isOn(): boolean {
    return this.#types.size > 0
  }

  /** Whether texts of this side are changed: masked, or given the values of the request back. */
  get changes(): boolean {
    return this.masked.size > 0 || (this.#side === 'output' && this.placeholders.values.size > 0)
  }

  /**
   * Whether a name, an id or a code is, as a whole, a value that a detector finds. Values inside of one do not count: a random
   * id can contain digits like those of a phone number, and a changed id does not work any more.
   */
  isValue(token: string): boolean {
    return isMatch(token, this.#types)
  }

  /** The first value that blocks; null = none. */
  findBlocked(text: string, { isJson }: Pick<TextForm, 'isJson'>): DetectorType | null {
    if (this.blocked.size === 0) return null
    // All types: a value that is part of another one does not count.
    for (const { type } of findMatches(readText(text, isJson).read, this.#types))
      if (this.blocked.has(type)) return type
    return null
  }

  /** A whole text with its values masked and, of an answer, those of the request restored. */
  apply(text: string, form: TextForm): string {
    if (!this.changes) return text
    return new GuardedText(this, form).push(text, true)
  }

  /** A whole text with its values masked, as others than its client see it. */
  mask(text: string, { isJson }: Pick<TextForm, 'isJson'>): string {
    this.#isCounting = false
    try {
      return this.apply(text, { isJson, isSealed: true })
    } finally {
      this.#isCounting = true
    }
  }

  /** The values in a text as it is read, from `from` on. */
  matches(read: string, from: number): Iterable<Match> {
    return this.masked.size > 0 ? findMatches(read, this.#types, from) : []
  }

  /** What stands in place of a value; null: the value itself. */
  replacement({ type }: Match, written: string, { isJson }: Pick<TextForm, 'isJson'>): string | null {
    if (!this.masked.has(type)) return null
    const { placeholders } = this
    const value = isJson ? unescaped(written) : written
    // The caller's own value, which only its answer repeats.
    if (this.#side === 'output' && placeholders.isOwn(value)) return null
    if (this.#isCounting) this.counts.set(type, (this.counts.get(type) ?? 0) + 1)
    return this.#side === 'input' ? placeholders.add(type, value) : placeholders.hide(type, value)
  }

  /** Text of an answer between the values that were masked. */
  between(text: string, { isJson, isSealed }: TextForm): string {
    return this.#side === 'output' && !isSealed ? this.placeholders.restore(text, isJson) : text
  }
}

/** A text that comes in parts. What it returns in all is what `TextGuard.apply` returns for the whole. */
export class GuardedText {
  readonly #guard: TextGuard
  readonly #form: TextForm
  /** The end of what was returned, as it was read: what precedes a value decides whether it is one. */
  #context = ''
  #pending = ''
  /** Whether what follows what was returned is inside of a string, of JSON. */
  #isInString = false
  /** Whether what it returned differs from the text. */
  isChanged = false

  constructor(guard: TextGuard, form: TextForm) {
    this.#guard = guard
    this.#form = form
  }

  /** Adds a part; returns what is certain. `isLast`: nothing follows. */
  push(part: string, isLast: boolean): string {
    const guard = this.#guard
    const text = this.#pending + part
    const before = this.#context.length
    const { read: own, beginOf, endOf } = readText(text, this.#form.isJson)
    const read = this.#context + own
    const safeRead = isLast ? read.length : Math.max(before, this.#safeEnd(read))
    let at = 0
    let readEnd = safeRead
    let out = ''
    let readAt = before
    for (const match of guard.matches(read, before)) {
      if (match.start >= safeRead) break
      if (match.end > safeRead) {
        // It reaches into what is not certain.
        readEnd = match.start
        break
      }
      const [start, end] = [beginOf(match.start - before), endOf(match.end - before)]
      this.#passQuotes(read, readAt, match.start)
      readAt = match.start
      out += guard.between(text.slice(at, start), this.#form)
      out += this.#replace(match, text.slice(start, end))
      at = end
    }
    this.#passQuotes(read, readAt, readEnd)
    const end = isLast ? text.length : beginOf(readEnd - before)
    out += guard.between(text.slice(at, end), this.#form)
    this.#context = read.slice(Math.max(0, readEnd - contextLength), readEnd)
    this.#pending = text.slice(end)
    this.isChanged ||= out !== text.slice(0, end)
    return out
  }

  #replace(match: Match, written: string): string {
    const replacement = this.#guard.replacement(match, written, this.#form)
    if (replacement === null) return written
    // A number, in whose place no text may stand as it is.
    return this.#form.isJson && !this.#isInString ? `"${replacement}"` : replacement
  }

  /** Notes the ends of strings in JSON between two positions of the text as it is read. */
  #passQuotes(read: string, from: number, to: number): void {
    if (!this.#form.isJson) return
    // Not by a search, which would go on beyond `to` for each value.
    for (let i = from; i < to; i++) if (read[i] === '"') this.#isInString = !this.#isInString
  }

  /** Up to where the text is certain: before what may become a value, or a placeholder. */
  #safeEnd(read: string): number {
    const end = this.#guard.masked.size > 0 ? tailStart(read) : read.length
    return Math.min(end, Placeholders.begunAt(read.slice(0, end)))
  }
}

/** What a part of a string in JSON means: of the values that are found, only private keys have escapes. */
function unescaped(written: string): string {
  if (!written.includes('\\')) return written
  try {
    return JSON.parse(`"${written}"`)
  } catch {
    return written
  }
}
