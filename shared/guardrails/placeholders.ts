import { type DetectorType, detectorTypes } from '../keys/guardrails.ts'

const names = detectorTypes.map(type => type.toUpperCase()).join('|')
const placeholders = new RegExp(String.raw`\[(?:${names})_\d{1,6}\]`, 'g')
const maxNameLength = Math.max(...detectorTypes.map(type => type.length))
/** Maximum length of the values that replace placeholders in an answer. A placeholder of a few tokens may stand for a key of 8,000 characters. */
const maxRestoredCharacters = 4 * 1024 * 1024
/** The beginning of a placeholder at the end of a text. */
const begun = new RegExp(String.raw`\[(?:[A-Z_]{0,${maxNameLength}}|[A-Z_]{1,${maxNameLength}}_\d{0,6})$`)

/**
 * The placeholders of one request: each value has one, numbered in the order in which the values occur, so that a conversation
 * that is sent again and again has the same ones.
 */
export class Placeholders {
  readonly #byValue = new Map<string, string>()
  /** The values of the request, which its answer has in place of their placeholders. */
  readonly #values = new Map<string, string>()
  readonly #counts = new Map<DetectorType, number>()
  readonly #taken = new Set<string>()
  #restoredCharacters = 0

  /** Keeps placeholders that a text of the request has by itself from standing for a value. */
  reserve(text: string): void {
    if (text.includes('[')) for (const [name] of text.matchAll(placeholders)) this.#taken.add(name)
  }

  /** The placeholder of a value of the request. */
  add(type: DetectorType, value: string): string {
    const name = this.hide(type, value)
    this.#values.set(name, value)
    return name
  }

  /** The placeholder of a value that its caller is not to see. */
  hide(type: DetectorType, value: string): string {
    const known = this.#byValue.get(value)
    if (known !== undefined) return known
    let count = this.#counts.get(type) ?? 0
    let name: string
    do name = `[${type.toUpperCase()}_${++count}]`
    while (this.#taken.has(name))
    this.#counts.set(type, count)
    this.#byValue.set(value, name)
    return name
  }

  /** The values by their placeholders. */
  get values(): ReadonlyMap<string, string> {
    return this.#values
  }

  /** Whether a value is one that the request had, so that its caller knows it. */
  isOwn(value: string): boolean {
    return this.#values.get(this.#byValue.get(value) ?? '') === value
  }

  /**
   * A text with the values of the request in place of their placeholders, as long as these values are not too long together.
   * `isJson`: the text is a part of JSON.
   */
  restore(text: string, isJson: boolean): string {
    if (this.#values.size === 0 || !text.includes('[')) return text
    return text.replace(placeholders, name => {
      const value = this.#values.get(name)
      if (value === undefined || this.#restoredCharacters + value.length > maxRestoredCharacters) return name
      this.#restoredCharacters += value.length
      return isJson ? JSON.stringify(value).slice(1, -1) : value
    })
  }

  /** Where a placeholder begins that the end of a text may have cut off. */
  static begunAt(text: string): number {
    const found = begun.exec(text.slice(-16))
    return found ? text.length - found[0].length : text.length
  }
}
