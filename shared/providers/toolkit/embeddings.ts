import { GatewayError } from '../../base/errors.ts'
import type { Call } from '../contract.ts'
import { invalidResponse } from './json-fields.ts'
import { assertText } from './token-inputs.ts'

/** The texts of a request for embeddings. Throws 400 `unsupported_capability` for token ids. */
export function textsOf({ body: { input } }: Call<'embedding'>): string[] {
  const inputs = typeof input === 'string' ? [input] : input
  assertText(inputs, 'input')
  return inputs
}

/**
 * The texts of each call to a provider that takes `maxTexts` at a time: OpenAI, and so its clients, send up to 2,048 (LangChain 1,000 by
 * default).
 */
export function inCalls(texts: readonly string[], maxTexts: number): string[][] {
  const calls: string[][] = []
  for (let start = 0; start < texts.length; start += maxTexts) calls.push(texts.slice(start, start + maxTexts))
  return calls
}

/** Of a request to a model that takes one text at a time. */
const maxSingleTexts = 256

/** The texts of a request to such a model. Throws 400 for more than 256, and as `textsOf` does. */
export function singleTextsOf(call: Call<'embedding'>): string[] {
  const texts = textsOf(call)
  if (texts.length <= maxSingleTexts) return texts
  const message = `This model takes at most ${maxSingleTexts} inputs per request.`
  throw new GatewayError('invalid_request', message, { param: 'input' })
}

/** A vector as numbers, or as `base64Vector`. Throws a ProviderError `invalid_response` unless it has numbers. */
export function encodedVector(vector: unknown, asBase64: boolean): number[] | string {
  if (!Array.isArray(vector) || vector.length === 0 || typeof vector[0] !== 'number')
    throw invalidResponse('a vector has no numbers')
  return asBase64 ? base64Vector(vector) : vector
}

/** A vector as OpenAI's clients decode it: little-endian 32-bit floats in base64. */
export function base64Vector(values: readonly number[]): string {
  const bytes = Buffer.allocUnsafe(values.length * 4)
  for (let i = 0; i < values.length; i++) bytes.writeFloatLE(values[i]!, i * 4)
  return bytes.toString('base64')
}

/** The tokens of the answers to a call; undefined unless each states its own. */
export function sumOfTokens(counts: readonly unknown[]): number | undefined {
  let sum = 0
  for (const count of counts) {
    if (!Number.isSafeInteger(count) || (count as number) < 0) return undefined
    sum += count as number
  }
  return sum
}
