import { StringDecoder } from 'node:string_decoder'
import { loadOnce } from '../base/load-once.ts'
import type { BytePairEncoding } from './byte-pair-encoding.ts'

/**
 * Counts tokens with the o200k vocabulary of OpenAI’s current models. Encoding blocks the process, so a tokenizer,
 * which serves one request, encodes at most 20,000 characters and estimates the rest.
 */
export type Tokenizer = {
  count(text: string): number
  /** The text of each token; estimated tokens have four characters each. */
  split(text: string): string[]
  /** The first `max` tokens of a text. */
  first(text: string, max: number): string
  /** A fresh tokenizer for another request. */
  createFresh(): Tokenizer
}

/** Encoding time is quadratic in the length of a word, so long texts are split. */
const pieceChars = 1_000
const pieces = /.{1,1000}/gsu
const maxExactChars = 20_000
const charsPerToken = 4

/** Loads the vocabulary at the first count, not at process start: most processes never count. */
export async function tokenizer(): Promise<Tokenizer> {
  return new BoundedTokenizer(await loadEncoding())
}

const loadEncoding = loadOnce(async () => {
  const { BytePairEncoding } = await import('./byte-pair-encoding.ts')
  return BytePairEncoding.load()
})

class BoundedTokenizer implements Tokenizer {
  readonly #encoding: BytePairEncoding
  /** A text is often counted twice: a response echoes its prompt. */
  readonly #counts = new Map<string, number>()
  #remainingChars = maxExactChars
  #encodedChars = 0
  #encodedTokens = 0

  constructor(encoding: BytePairEncoding) {
    this.#encoding = encoding
  }

  count(text: string): number {
    const known = this.#counts.get(text)
    if (known !== undefined) return known
    const tokens = text.length <= this.#remainingChars ? this.#encode(text).length : this.#estimate(text)
    this.#counts.set(text, tokens)
    return tokens
  }

  split(text: string): string[] {
    const exact = this.#exactPart(text)
    const rest = text.slice(exact.length).match(/.{1,4}/gsu) ?? []
    return [...this.#textsOf(this.#encode(exact)), ...rest]
  }

  first(text: string, max: number): string {
    const known = this.#counts.get(text)
    if (known !== undefined && known <= max) return text
    const exact = this.#exactPart(text)
    const tokens = this.#encode(exact)
    if (tokens.length <= max && exact.length === text.length) return text
    const first =
      max < tokens.length
        ? this.#textsOf(tokens.slice(0, max)).join('')
        : text.slice(0, exact.length + (max - tokens.length) * charsPerToken)
    const beyond = Math.ceil(Math.max(0, first.length - exact.length) / charsPerToken)
    this.#counts.set(first, Math.min(max, tokens.length + beyond))
    return first
  }

  createFresh(): Tokenizer {
    return new BoundedTokenizer(this.#encoding)
  }

  /** Estimates from the tokens per character of samples spread over the text, or of the texts encoded before. */
  #estimate(text: string): number {
    const count = Math.floor(this.#remainingChars / pieceChars)
    for (let i = 0; i < count; i++) {
      const start = Math.floor((i * text.length) / count)
      this.#encode(text.slice(start, start + pieceChars))
    }
    const tokensPerChar = this.#encodedChars > 0 ? this.#encodedTokens / this.#encodedChars : 1 / charsPerToken
    return Math.ceil(text.length * tokensPerChar)
  }

  /** The text of each token. Of a character in several, the last one has all; one that is cut off is left out. */
  #textsOf(tokens: readonly number[]): string[] {
    const decoder = new StringDecoder('utf8')
    return tokens.map(token => decoder.write(this.#encoding.bytesOf(token)))
  }

  #exactPart(text: string): string {
    return text.slice(0, this.#remainingChars)
  }

  #encode(text: string): number[] {
    const tokens = (text.match(pieces) ?? []).flatMap(piece => this.#encoding.encode(piece))
    this.#remainingChars -= text.length
    this.#encodedChars += text.length
    this.#encodedTokens += tokens.length
    if (!this.#counts.has(text)) this.#counts.set(text, tokens.length)
    return tokens
  }
}
