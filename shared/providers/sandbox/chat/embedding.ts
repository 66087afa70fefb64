import { createHash } from 'node:crypto'
import type { EmbeddingRequest } from '../../../kinds/embedding.ts'
import type { Tokenizer } from '../../../kinds/tokenizer.ts'
import { promptsOf } from './completion.ts'
import { badRequest, type SandboxResponse } from './response.ts'

const defaultDimensions = 1536
const maxDimensions = 4096
/** For all vectors of a response: about 10 MB of JSON, which the gateway parses as a whole. */
const maxValues = 500_000

/** One unit vector per input, deterministic for its text. */
export function embed(body: EmbeddingRequest, tokenizer: Tokenizer): SandboxResponse {
  const dimensions = body.dimensions ?? defaultDimensions
  if (dimensions > maxDimensions)
    return badRequest(`The sandbox gives at most ${maxDimensions} dimensions.`, 'dimensions')
  const inputCount = typeof body.input === 'string' || typeof body.input[0] === 'number' ? 1 : body.input.length
  if (dimensions * inputCount > maxValues) {
    const message = `The sandbox gives at most ${maxValues} values: fewer inputs, or fewer dimensions than ${dimensions}.`
    return badRequest(message, body.dimensions == null ? 'input' : 'dimensions')
  }
  const inputs = promptsOf(body.input, tokenizer)
  const tokens = inputs.reduce((sum, input) => sum + input.tokens, 0)
  const texts = inputs.map(({ text }) => text)
  return {
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: list(texts, dimensions, body.encoding_format === 'base64', body.model, tokens),
  }
}

function* list(
  texts: string[],
  dimensions: number,
  asBase64: boolean,
  model: string,
  tokens: number,
): Generator<string> {
  yield `{"object":"list","model":${JSON.stringify(model)},"data":[`
  for (const [index, text] of texts.entries()) {
    const vector = unitVector(text, dimensions)
    const embedding = asBase64 ? Buffer.from(vector.buffer).toString('base64') : [...vector]
    yield `${index > 0 ? ',' : ''}${JSON.stringify({ object: 'embedding', index, embedding })}`
  }
  yield `],"usage":{"prompt_tokens":${tokens},"total_tokens":${tokens}}}`
}

/** Values from an xorshift generator seeded with the text's hash, scaled to length 1. */
function unitVector(text: string, dimensions: number): Float32Array<ArrayBuffer> {
  let state = createHash('sha256').update(text).digest().readUInt32LE() || 1
  const vector = new Float32Array(dimensions)
  let squares = 0
  for (let i = 0; i < dimensions; i++) {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    const value = state / 2 ** 31
    vector[i] = value
    squares += value * value
  }
  const length = Math.sqrt(squares)
  return vector.map(value => value / length)
}
