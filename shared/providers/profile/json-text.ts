/** What a JSON text begins with. */
type JsonRoot = 'object' | 'array' | 'any'

const openings: Record<JsonRoot, RegExp> = { object: /\{/, array: /\[/, any: /[{[]/ }

/**
 * Finds the JSON object or array in a model's text, which arrives in pieces: what precedes it (an introduction, a code
 * fence) and what follows it is left out. A text without one is passed on as it is.
 */
export class JsonText {
  readonly #opening: RegExp
  /** The text before the JSON begins. */
  #before = ''
  #state: 'before' | 'within' | 'after' = 'before'
  #depth = 0
  #isInString = false
  #isEscaped = false

  constructor(root: JsonRoot) {
    this.#opening = openings[root]
  }

  /** The JSON in a whole text; the text itself if it has none. */
  static of(text: string, root: JsonRoot): string {
    const json = new JsonText(root)
    return json.push(text) + json.end()
  }

  /** The part of the JSON that a piece of text has. */
  push(piece: string): string {
    if (this.#state === 'after') return ''
    if (this.#state === 'within') return this.#within(piece, 0)
    const at = piece.search(this.#opening)
    if (at === -1) {
      this.#before += piece
      return ''
    }
    this.#before = ''
    this.#state = 'within'
    return this.#within(piece, at)
  }

  /** What is left when the text has ended: all of it, if it has no JSON. */
  end(): string {
    const text = this.#before
    this.#before = ''
    return text
  }

  #within(piece: string, start: number): string {
    for (let at = start; at < piece.length; at++) {
      const character = piece[at]
      if (this.#isInString) {
        if (this.#isEscaped) this.#isEscaped = false
        else if (character === '\\') this.#isEscaped = true
        else if (character === '"') this.#isInString = false
      } else if (character === '"') this.#isInString = true
      else if (character === '{' || character === '[') this.#depth++
      else if ((character === '}' || character === ']') && --this.#depth === 0) {
        this.#state = 'after'
        return piece.slice(start, at + 1)
      }
    }
    return piece.slice(start)
  }
}
