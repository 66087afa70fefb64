type Codec = { encode(text: string): number[]; decode(tokens: number[]): string }

/**
 * Token arithmetic by the o200k vocabulary, what OpenAI’s current models use. It blocks the process while it encodes, so that
 * one tokenizer, which is for one request, encodes 20,000 characters in all and estimates the rest.
 */
export type Tokenizer = {
  count(text: string): number
  /** The texts of the single tokens; of four characters each where they are estimated. */
  split(text: string): string[]
  /** The first `most` tokens of a text. */
  first(text: string, most: number): string
  /** The same for another request. */
  renewed(): Tokenizer
}

/** The encoder's time grows with the square of a word's length, so long texts are cut into pieces. */
const pieceChars = 1_000
const pieces = /.{1,1000}/gsu
const maxExactChars = 20_000
const charsPerToken = 4

let loaded: Promise<Codec> | undefined

/** Loads the vocabulary (about 0.3 s) when the first test request needs it, not when the process starts. */
export async function tokenizer(): Promise<Tokenizer> {
  loaded ??= import('gpt-tokenizer/encoding/o200k_base').then(({ encode, decode }) => {
    const options = { disallowedSpecial: new Set<string>() }
    return { encode: text => encode(text, options), decode: tokens => decode(tokens) }
  })
  return new BoundedTokenizer(await loaded)
}

class BoundedTokenizer implements Tokenizer {
  readonly #codec: Codec
  /** A text is often counted again: an answer echoes its prompt. */
  readonly #counts = new Map<string, number>()
  #leftChars = maxExactChars
  #encodedChars = 0
  #encodedTokens = 0

  constructor(codec: Codec) {
    this.#codec = codec
  }

  count(text: string): number {
    const known = this.#counts.get(text)
    if (known !== undefined) return known
    const tokens = text.length <= this.#leftChars ? this.#encode(text).length : this.#estimate(text)
    this.#counts.set(text, tokens)
    return tokens
  }

  split(text: string): string[] {
    const exact = this.#beginning(text)
    const rest = text.slice(exact.length).match(/.{1,4}/gsu) ?? []
    return [...this.#encode(exact).map(token => this.#codec.decode([token])), ...rest]
  }

  first(text: string, most: number): string {
    const known = this.#counts.get(text)
    if (known !== undefined && known <= most) return text
    const exact = this.#beginning(text)
    const tokens = this.#encode(exact)
    if (tokens.length <= most && exact.length === text.length) return text
    const first =
      most < tokens.length
        ? // A cut inside a character leaves a replacement character behind.
          this.#codec.decode(tokens.slice(0, most)).replace(/\uFFFD+$/, '')
        : text.slice(0, exact.length + (most - tokens.length) * charsPerToken)
    const beyond = Math.ceil(Math.max(0, first.length - exact.length) / charsPerToken)
    this.#counts.set(first, Math.min(most, tokens.length + beyond))
    return first
  }

  renewed(): Tokenizer {
    return new BoundedTokenizer(this.#codec)
  }

  /** As many tokens a character as pieces of the text have, taken from all over it, or else the texts before it. */
  #estimate(text: string): number {
    const count = Math.floor(this.#leftChars / pieceChars)
    for (let i = 0; i < count; i++) {
      const start = Math.floor((i * text.length) / count)
      this.#encode(text.slice(start, start + pieceChars))
    }
    const tokensPerChar = this.#encodedChars > 0 ? this.#encodedTokens / this.#encodedChars : 1 / charsPerToken
    return Math.ceil(text.length * tokensPerChar)
  }

  #beginning(text: string): string {
    return text.slice(0, this.#leftChars)
  }

  #encode(text: string): number[] {
    const tokens = (text.match(pieces) ?? []).flatMap(piece => this.#codec.encode(piece))
    this.#leftChars -= text.length
    this.#encodedChars += text.length
    this.#encodedTokens += tokens.length
    if (!this.#counts.has(text)) this.#counts.set(text, tokens.length)
    return tokens
  }
}
