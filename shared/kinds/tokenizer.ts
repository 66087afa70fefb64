type Codec = { encode(text: string): number[]; decode(tokens: number[]): string }

/** Token arithmetic by the o200k vocabulary, what OpenAI’s current models use. */
export type Tokenizer = {
  count(text: string): number
  /** The texts of the single tokens. */
  split(text: string): string[]
  /** The first `most` tokens of a text. */
  first(text: string, most: number): string
}

/** The encoder's time grows with the square of a word's length, so long texts are cut into pieces … */
const pieces = /.{1,1000}/gsu
/** … and what lies beyond this length is taken at four characters a token. */
const exactChars = 200_000

let loaded: Promise<Tokenizer> | undefined

/** Loads the vocabulary (about 0.3 s) when the first test request needs it, not when the process starts. */
export function tokenizer(): Promise<Tokenizer> {
  loaded ??= import('gpt-tokenizer/encoding/o200k_base').then(({ encode, decode }) => {
    const options = { disallowedSpecial: new Set<string>() }
    return from({ encode: text => encode(text, options), decode: tokens => decode(tokens) })
  })
  return loaded
}

function from({ encode, decode }: Codec): Tokenizer {
  const tokens = (text: string) => (text.slice(0, exactChars).match(pieces) ?? []).flatMap(encode)
  const beyond = (text: string) => Math.ceil(Math.max(0, text.length - exactChars) / 4)
  return {
    count: text => tokens(text).length + beyond(text),
    split: text => tokens(text).map(token => decode([token])),
    first(text, most) {
      const exact = tokens(text)
      if (most < exact.length) {
        // A cut inside a character leaves a replacement character behind.
        return decode(exact.slice(0, most)).replace(/\uFFFD+$/, '')
      }
      return text.slice(0, exactChars + (most - exact.length) * 4)
    },
  }
}
