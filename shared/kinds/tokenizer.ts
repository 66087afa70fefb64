import { StringDecoder } from 'node:string_decoder'
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

let loaded: Promise<BytePairEncoding> | undefined

/** Loads the vocabulary at the first count, not at process start: most processes never count. */
export async function tokenizer(): Promise<Tokenizer> {
  loaded ??= import('./byte-pair-encoding.ts').then(({ BytePairEncoding }) => BytePairEncoding.load())
  return new BoundedTokenizer(await loaded)
}

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
    // What a token has of a character that the next one completes comes with that one.
    const decoder = new StringDecoder('utf8')
    return [...this.#encode(exact).map(token => decoder.write(this.#encoding.bytesOf(token))), ...rest]
  }

  first(text: string, max: number): string {
    const known = this.#counts.get(text)
    if (known !== undefined && known <= max) return text
    const exact = this.#exactPart(text)
    const tokens = this.#encode(exact)
    if (tokens.length <= max && exact.length === text.length) return text
    const first =
      max < tokens.length
        ? // A cut inside a character leaves a replacement character at the end.
          this.#decode(tokens.slice(0, max)).replace(/\uFFFD+$/, '')
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

  #decode(tokens: readonly number[]): string {
    return Buffer.concat(tokens.map(token => this.#encoding.bytesOf(token))).toString()
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
