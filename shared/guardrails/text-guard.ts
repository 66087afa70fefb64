import { checks, type DetectorType, type Guardrails, type Side } from '../keys/guardrails.ts'
import { contextLength, findMatches, type Match, tailStart } from './detectors.ts'
import { Placeholders } from './placeholders.ts'

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

  /** The first value that blocks; null = none. */
  findBlocked(text: string, { isJson }: Pick<TextForm, 'isJson'>): DetectorType | null {
    if (this.blocked.size === 0) return null
    // All types: a value that is part of another one does not count.
    for (const { type } of findMatches(isJson ? withoutEscapes(text) : text, this.#types))
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

  /** The matches of a text that are replaced, from `from` on. */
  matches(text: string, isJson: boolean, from: number): Iterable<Match> {
    return this.masked.size > 0 ? findMatches(isJson ? withoutEscapes(text) : text, this.#types, from) : []
  }

  /** What stands in place of a value. */
  replacement({ type }: Match, value: string): string {
    if (!this.masked.has(type)) return value
    const { placeholders } = this
    // The caller's own value, which only its answer repeats.
    if (this.#side === 'output' && placeholders.isOwn(value)) return value
    if (this.#isCounting) this.counts.set(type, (this.counts.get(type) ?? 0) + 1)
    return this.#side === 'input' ? placeholders.add(type, value) : placeholders.hide(type, value)
  }

  /** Text of an answer between the values that were masked. */
  between(text: string, { isSealed }: TextForm): string {
    return this.#side === 'output' && !isSealed ? this.placeholders.restore(text) : text
  }
}

/** A text that comes in parts. What it returns in all is what `TextGuard.apply` returns for the whole. */
export class GuardedText {
  readonly #guard: TextGuard
  readonly #form: TextForm
  /** What was returned last, as it was received: what precedes a value decides whether it is one. */
  #context = ''
  #pending = ''

  constructor(guard: TextGuard, form: TextForm) {
    this.#guard = guard
    this.#form = form
  }

  /** Whether it holds text back. */
  get isHolding(): boolean {
    return this.#pending !== ''
  }

  /** Adds a part; returns what is certain. `isLast`: nothing follows. */
  push(part: string, isLast: boolean): string {
    const guard = this.#guard
    const { isJson } = this.#form
    const text = this.#context + this.#pending + part
    let at = this.#context.length
    const safe = isLast ? text.length : Math.max(at, this.#safeEnd(text))
    let out = ''
    for (const match of guard.matches(text, isJson, at)) {
      if (match.start >= safe || match.end > safe) break
      out += guard.between(text.slice(at, match.start), this.#form)
      out += guard.replacement(match, text.slice(match.start, match.end))
      at = match.end
    }
    const end = this.#endBefore(text, at, safe)
    out += guard.between(text.slice(at, end), this.#form)
    this.#context = text.slice(Math.max(0, end - contextLength), end)
    this.#pending = text.slice(end)
    return out
  }

  /** Up to where the text is certain: before what may become a value, or a placeholder. */
  #safeEnd(text: string): number {
    let end = text.length
    if (this.#guard.masked.size > 0) {
      const read = this.#form.isJson ? withoutEscapes(text) : text
      end = tailStart(read)
      // An escape is not cut in two.
      while (end > 0 && end < read.length && read[end] === '\0') end--
    }
    return Math.min(end, Placeholders.begunAt(text.slice(0, end)))
  }

  /** The end of what is returned: before a value that reaches into what is not certain. */
  #endBefore(text: string, at: number, safe: number): number {
    for (const { start, end } of this.#guard.matches(text, this.#form.isJson, at))
      return start < safe && end > safe ? start : safe
    return safe
  }
}

const escape = /\\(?:u[\da-fA-F]{4}|.)|\\(?:u[\da-fA-F]{0,3})?$/gs

/** JSON with every escape replaced by characters that no value has, so that positions stay. */
function withoutEscapes(json: string): string {
  return json.includes('\\') ? json.replace(escape, found => '\0'.repeat(found.length)) : json
}
