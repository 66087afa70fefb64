import type { GatewayError } from '../../../shared/base/errors.ts'
import { gemini } from '../../../shared/providers/adapters/gemini/protocol.ts'
import type { ProviderError } from '../../../shared/providers/provider-error.ts'
import { startGeminiEmulator } from '../../emulators/gemini.ts'
import { embeddingCall } from '../../support/providers/gemini-calls.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const embedding = gemini.direct.embedding!
const emulator = use(test, startGeminiEmulator)

test.serial('200 embeddings: whole vectors as they are, reduced ones at unit length', async t => {
  const embed = async (fields: object) => {
    const call = embeddingCall(fields)
    const { method, path, headers, body } = embedding.request(call)
    const response = await fetch(emulator.url + path, {
      method,
      headers: { ...headers, 'x-goog-api-key': 'k' },
      body: String(body),
    })
    return embedding.answer(await response.json(), call)
  }
  const whole = await embed({ input: ['a', 'b'] })
  t.deepEqual(
    whole.data.map(({ index, embedding }) => [index, embedding.length]),
    [
      [0, 3072],
      [1, 3072],
    ],
  )
  t.false('usage' in whole)
  const counted = { embeddings: [{ values: [1] }], usageMetadata: { promptTokenCount: 3 } }
  t.deepEqual(embedding.answer(counted, embeddingCall({ input: 'a' })).usage, { prompt_tokens: 3, total_tokens: 3 })
  const sent = emulator.requests.at(-1)!
  t.is(sent.path, '/v1beta/models/gemini-3.5-flash:batchEmbedContents')
  t.deepEqual(sent.body.requests[1], {
    model: 'models/gemini-3.5-flash',
    content: { role: 'user', parts: [{ text: 'b' }] },
  })
  const reduced = (await embed({ input: 'a', dimensions: 8 })).data[0]!.embedding as number[]
  t.is(reduced.length, 8)
  t.true(Math.abs(Math.hypot(...reduced) - 1) < 1e-12)
  const encoded = (await embed({ input: 'a', dimensions: 8, encoding_format: 'base64' })).data[0]!.embedding as string
  const decoded = Buffer.from(encoded, 'base64')
  t.deepEqual(
    reduced.map((_, index) => decoded.readFloatLE(index * 4)),
    reduced.map(Math.fround),
  )
})

test('embeddings: the base64 test vector, a null vector, and answers that make no sense', t => {
  const give = (values: number[], fields: object = {}) =>
    embedding.answer({ embeddings: [{ values }] }, embeddingCall({ input: 'a', ...fields })).data[0]!.embedding
  t.is(give([1, -2.5], { encoding_format: 'base64' }), 'AACAPwAAIMA=')
  t.deepEqual(give([1, -2.5]), [1, -2.5])
  t.deepEqual(give([3, 4], { dimensions: 2 }), [0.6, 0.8])
  t.deepEqual(give([0, 0], { dimensions: 2 }), [0, 0])
  t.is(t.throws<ProviderError>(() => give([1, 2, 3], { dimensions: 2 })).reason, 'invalid_response')
  for (const json of [
    null,
    {},
    { embeddings: [] },
    { embeddings: [{ values: [] }] },
    { embeddings: [{ values: ['x'] }] },
  ]) {
    t.is(
      t.throws<ProviderError>(() => embedding.answer(json, embeddingCall({ input: 'a' }))).reason,
      'invalid_response',
    )
  }
})

test.serial('200 for more texts than a batch takes: their vectors in order, each with its title', async t => {
  const input = Array.from({ length: 250 }, (_, index) => `Text ${index}`)
  const titles = input.map((_, index) => `Title ${index}`)
  const call = embeddingCall({ input, titles, dimensions: 4 })
  const requests = embedding.requests!(call)
  t.is(requests.length, 3)
  const answers = []
  for (const { path, method, body } of requests) {
    const headers = { 'content-type': 'application/json', 'x-goog-api-key': 'k' }
    const response = await fetch(emulator.url + path, { method, headers, body: String(body) })
    t.is(response.status, 200)
    answers.push(await response.json())
  }
  const { data } = embedding.answer(answers, call)
  t.is(data.length, 250)
  const single = embeddingCall({ input: input[200]!, dimensions: 4 })
  const { path, method, body } = embedding.request(single)
  const alone = await fetch(emulator.url + path, { method, headers: { 'x-goog-api-key': 'k' }, body: String(body) })
  t.deepEqual(data[200]!.embedding, embedding.answer(await alone.json(), single).data[0]!.embedding)
  const sent = JSON.parse(String(requests[2]!.body)).requests[0]
  t.like(sent, { content: { parts: [{ text: 'Text 200' }] }, title: 'Title 200' })
})

const refusedInputs: [string, unknown, string][] = [
  ['tokens', [1, 2, 3], 'unsupported_capability'],
  ['many tokens', Array(500).fill(1), 'unsupported_capability'],
  ['lists of tokens', [[1], [2]], 'unsupported_capability'],
]
for (const [name, input, code] of refusedInputs) {
  test(`400 ${code} on input for ${name}`, t => {
    const error = t.throws<GatewayError>(() => embedding.request(embeddingCall({ input })))
    t.like(error, { status: 400, code, param: 'input' })
  })
}
