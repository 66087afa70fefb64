import { readFile } from 'node:fs/promises'
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { O200K_TOKEN_SPLIT_REGEX } from 'gpt-tokenizer/encodingParams/constants'

/** One token a line: its bytes in base64, a space, its number, in ascending order from 0. */
const vocabularyFile = 'gpt-tokenizer/data/o200k_base.tiktoken'
/** Read in one turn of the event loop: about 2 ms. */
const linesPerTurn = 4_096
const newline = 0x0a
const base64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
/** The value of each character of base64; -1 = not one. */
const sextets = Int8Array.from({ length: 256 }, (_, code) => base64.indexOf(String.fromCharCode(code)))

const maxTokens = 200_000
const maxBytes = 1_500_000
/** A power of two, so that a slot is a hash's last bits, and large enough that three of five slots stay empty. */
const slotCount = 2 ** 19
const none = Number.POSITIVE_INFINITY

/**
 * The byte pair encoding of OpenAI's current models (o200k). It has the vocabulary as bytes in a hash table, 4.4 MB, and loads it
 * in many turns of the event loop: the library that it comes from needs 70 MB, and stops the process for 0.3 s.
 */
export class BytePairEncoding {
  /** Token `i` is in `bytes` from `ends[i - 1]` to `ends[i]`. */
  readonly #bytes = new Uint8Array(maxBytes)
  readonly #ends = new Uint32Array(maxTokens)
  /** Tokens, plus one, by the hash of their bytes; 0 = empty. A token whose slot is taken has the next that is empty. */
  readonly #slots = new Uint32Array(slotCount)
  #tokenCount = 0

  /** Throws what reading the file throws. */
  static async load(): Promise<BytePairEncoding> {
    const file = await readFile(fileURLToPath(import.meta.resolve(vocabularyFile)))
    const encoding = new BytePairEncoding()
    for (let at = 0; at < file.length; ) {
      for (let line = 0; line < linesPerTurn && at < file.length; line++) {
        encoding.#add(file, at)
        at = file.indexOf(newline, at) + 1
      }
      await setImmediate()
    }
    return encoding
  }

  /** Encodes a text; what looks like a special token is text. */
  encode(text: string): number[] {
    const tokens: number[] = []
    const bytes = Buffer.from(text)
    const isAscii = bytes.length === text.length
    let start = 0
    // The words cover the whole text.
    for (const word of text.match(O200K_TOKEN_SPLIT_REGEX) ?? []) {
      const end = start + (isAscii ? word.length : Buffer.byteLength(word))
      const token = this.#find(bytes, start, end)
      if (token === none) this.#encodeWord(bytes.subarray(start, end), tokens)
      else tokens.push(token)
      start = end
    }
    return tokens
  }

  /** The bytes of a token, which may begin or end inside a character. */
  bytesOf(token: number): Uint8Array {
    return this.#bytes.subarray(this.#startOf(token), this.#ends[token])
  }

  /** Adds the next token, which is in base64 at `at`. Node's decoder takes twice the time for so many short texts. */
  #add(file: Uint8Array, at: number): void {
    const token = this.#tokenCount++
    const start = this.#startOf(token)
    let end = start
    for (let bits = 0, bitCount = 0, i = at; sextets[file[i]!]! >= 0; i++) {
      bits = (bits << 6) | sextets[file[i]!]!
      bitCount += 6
      if (bitCount < 8) continue
      bitCount -= 8
      this.#bytes[end++] = bits >>> bitCount
    }
    this.#ends[token] = end
    let slot = slotOf(this.#bytes, start, end)
    while (this.#slots[slot] !== 0) slot = (slot + 1) % slotCount
    this.#slots[slot] = token + 1
  }

  #startOf(token: number): number {
    return token === 0 ? 0 : this.#ends[token - 1]!
  }

  /** Appends the tokens of a word that is not one itself: merges, again and again, the first pair with the lowest number. */
  #encodeWord(word: Uint8Array, tokens: number[]): void {
    const starts = Array.from({ length: word.length + 1 }, (_, i) => i)
    const pairAt = (i: number) => (i + 2 < starts.length ? this.#find(word, starts[i]!, starts[i + 2]!) : none)
    const pairs = Array.from({ length: word.length - 1 }, (_, i) => pairAt(i))
    while (pairs.length > 0) {
      const merged = indexOfLowest(pairs)
      if (pairs[merged] === none) break
      starts.splice(merged + 1, 1)
      pairs.splice(merged, 1)
      if (merged < pairs.length) pairs[merged] = pairAt(merged)
      if (merged > 0) pairs[merged - 1] = pairAt(merged - 1)
    }
    for (let i = 0; i + 1 < starts.length; i++) tokens.push(this.#find(word, starts[i]!, starts[i + 1]!))
  }

  /** The token with the bytes of `text` from `start` to `end`; `none` = there is none. */
  #find(text: Uint8Array, start: number, end: number): number {
    for (let slot = slotOf(text, start, end); this.#slots[slot] !== 0; slot = (slot + 1) % slotCount) {
      const token = this.#slots[slot]! - 1
      if (this.#isToken(token, text, start, end)) return token
    }
    return none
  }

  #isToken(token: number, text: Uint8Array, start: number, end: number): boolean {
    const first = this.#startOf(token)
    if (this.#ends[token]! - first !== end - start) return false
    for (let i = start; i < end; i++) if (text[i] !== this.#bytes[first + i - start]) return false
    return true
  }
}

/** FNV-1a. */
function slotOf(bytes: Uint8Array, start: number, end: number): number {
  let hash = 0x811c9dc5
  for (let i = start; i < end; i++) hash = Math.imul(hash ^ bytes[i]!, 0x01000193)
  return (hash ^ (hash >>> 15)) & (slotCount - 1)
}

function indexOfLowest(numbers: readonly number[]): number {
  let lowest = 0
  for (let i = 1; i < numbers.length; i++) if (numbers[i]! < numbers[lowest]!) lowest = i
  return lowest
}
