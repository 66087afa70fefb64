import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { z } from 'zod'
import { compilePredicate } from '../../shared/base/predicate.ts'
import { validate } from '../../shared/base/validate.ts'
import { directKinds } from '../../shared/kinds/index.ts'
import { mutate, mutation } from '../support/api/mutations.ts'
import { fuzzRuns } from '../support/fuzz.ts'
import { test } from '../support/test.ts'

/**
 * Asserts that a predicate is true only where parsing succeeds and changes nothing, and that it is false only where parsing
 * fails, or where the value has a field that parsing leaves out.
 */
function assertAgrees(schema: z.ZodType, value: unknown): boolean {
  const accepted = compilePredicate(schema)!(value)
  const parsed = schema.safeParse(value)
  const isUnchanged = parsed.success && isDeepStrictEqual(parsed.data, value)
  if (accepted && !isUnchanged) throw new Error(`accepted, and parsing does not give it back: ${print(value)}`)
  if (!accepted && isUnchanged && !print(value).includes('"__proto__"'))
    throw new Error(`not accepted, and parsing gives it back: ${print(value)}`)
  return accepted
}

function print(value: unknown): string {
  return String(JSON.stringify(value))
}

const imagePart = { type: 'image_url', image_url: { url: 'https://example.com/a.png', detail: 'low' } }
const toolCalls = [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }]
const chat = {
  model: 'gpt-5.6-luna',
  messages: [
    { role: 'system', content: 'Be brief.' },
    {
      role: 'user',
      content: [{ type: 'text', text: 'Hi' }, imagePart, { type: 'file', file: { file_data: 'data:' } }],
    },
    { role: 'assistant', content: null, tool_calls: toolCalls, reasoning_content: 'Hm' },
    { role: 'tool', tool_call_id: 'c', content: 'result' },
  ],
  tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' }, strict: true } }],
  tool_choice: { type: 'function', function: { name: 'f' } },
  provider: { order: ['a'], allow_fallbacks: false },
  max_tokens: 5,
  temperature: 0.5,
  stop: ['x'],
  stream: true,
  stream_options: { include_usage: true },
  response_format: { type: 'json_schema', json_schema: { name: 's', schema: {} } },
  modalities: ['text', 'audio'],
  audio: { voice: { id: 'v' }, format: 'wav' },
  logit_bias: { 17: -1 },
  metadata: { a: 'b' },
  plugins: [],
  search_parameters: { mode: 'off' },
  unknown_field: { any: ['thing'] },
}
const marked = { type: 'text', text: 'Hi', cache_control: { type: 'ephemeral' } }
const bodies: Record<keyof typeof directKinds, object[]> = {
  generate_content: [
    { model: 'x', contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] },
    {
      model: 'x',
      stream: true,
      alt: 'sse',
      mode: 'cost',
      unknown_field: 1,
      systemInstruction: { parts: [{ text: 'Be brief.' }] },
      tools: [{ functionDeclarations: [{ name: 'w', parameters: { type: 'OBJECT' } }] }, { googleSearch: {} }],
      toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['w'] } },
      generationConfig: {
        maxOutputTokens: 5,
        responseJsonSchema: { type: 'object' },
        thinkingConfig: { thinkingBudget: -1 },
      },
      contents: [
        {
          parts: [
            { inlineData: { mimeType: 'image/png', data: 'AA' } },
            { fileData: { fileUri: 'https://a.example' } },
          ],
        },
        { role: 'model', parts: [{ functionCall: { name: 'w', args: { a: 1 } }, thoughtSignature: 'AA==' }] },
        { role: 'user', parts: [{ functionResponse: { name: 'w', response: { output: 'x' } } }] },
      ],
    },
  ],
  messages: [
    { model: 'x', max_tokens: 5, messages: [{ role: 'user', content: 'Hi' }], temperature: null },
    {
      model: 'x',
      max_tokens: 5,
      stream: true,
      mode: 'cost',
      unknown_field: 1,
      system: [marked],
      thinking: { type: 'enabled', budget_tokens: 1024 },
      tools: [
        { name: 'w', input_schema: { type: 'object' } },
        { type: 'web_fetch_20250910', name: 'f', max_uses: 1 },
      ],
      messages: [
        {
          role: 'user',
          content: [marked, { type: 'image', source: { type: 'base64', media_type: 'a/b', data: 'AA' } }],
        },
        {
          role: 'assistant',
          content: [
            { type: 'tool_use', id: 't', name: 'w', input: {} },
            { type: 'new_block', a: 1 },
          ],
        },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: [marked, { type: 'other' }] }] },
      ],
    },
  ],
  responses: [
    { model: 'x', input: 'Hi', stream: null },
    {
      model: 'x',
      instructions: 'Be brief',
      stream: true,
      store: false,
      mode: 'cost',
      client_metadata: { a: 1 },
      max_output_tokens: 5,
      text: { format: { type: 'json_schema', name: 's', schema: {} }, verbosity: 'low' },
      reasoning: { effort: 'low', summary: 'auto' },
      include: ['reasoning.encrypted_content'],
      tool_choice: { type: 'function', name: 'f' },
      tools: [
        { type: 'function', name: 'f', parameters: { type: 'object' }, strict: false },
        { type: 'custom', name: 'c', format: { type: 'grammar', syntax: 'lark', definition: 'x' } },
        { type: 'namespace', name: 'n', description: 'd', tools: [{ type: 'function', name: 'g' }] },
        { type: 'web_search', external_web_access: true },
      ],
      input: [
        { role: 'developer', content: 'Be brief' },
        {
          type: 'message',
          role: 'user',
          content: [
            { type: 'input_text', text: 'Hi' },
            { type: 'new_part', a: 1 },
          ],
        },
        { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'Hm' }], encrypted_content: 'x' },
        { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_image', image_url: 'data:' }] },
        { type: 'custom_tool_call', call_id: 'd', name: 'c', input: 'x' },
        { type: 'custom_tool_call_output', call_id: 'd', output: 'y' },
        { type: 'web_search_call', id: 'ws', status: 'completed' },
      ],
    },
  ],
  chat: [chat, { model: 'auto', messages: [{ role: 'user', content: 'Hi' }], n: null }],
  completion: [
    { model: 'x', prompt: ['Hi'], max_tokens: 5, best_of: 2, echo: false },
    { model: 'x', prompt: [[1, 2], [3]], suffix: null },
  ],
  embedding: [
    { model: 'x', input: ['a', 'b'], dimensions: 8, encoding_format: 'float' },
    { model: 'x', input: [1, 2, 3] },
  ],
}

for (const [kind, valid] of Object.entries(bodies) as [keyof typeof directKinds, object[]][]) {
  const schema: z.ZodType = directKinds[kind]
  test(`bodies of the kind ${kind} are taken as they are, and damaged ones as the schema says`, t => {
    for (const body of valid) {
      t.true(assertAgrees(schema, body))
      t.is(validate(schema, body), body)
    }
    const property = fc.property(
      fc.constantFrom(...valid),
      fc.array(mutation, { minLength: 1, maxLength: 3 }),
      (body, mutations) => {
        const mutated = structuredClone(body)
        for (const one of mutations) mutate(mutated, one)
        // What comes in is JSON: no negative zero, no class but Object.
        assertAgrees(schema, JSON.parse(JSON.stringify(mutated)))
      },
    )
    fc.assert(property, { numRuns: fuzzRuns(500) })
  })
}

const name = fc.constantFrom('a', 'b', 'c', '__proto__', 'constructor', 'type')
const length = fc.nat(3)
const text = fc.array(fc.constantFrom('a', 'b', '1', '😀', '\ud800'), { maxLength: 4 }).map(parts => parts.join(''))
const number = fc.constantFrom(0, 1, 2, -1, 0.5, 2 ** 53)
const { value } = fc.letrec(tie => ({
  value: fc.oneof(
    { maxDepth: 4, depthSize: 'medium', withCrossShrink: true },
    fc.oneof(text, number, fc.constantFrom(null, true, false)),
    fc.array(tie('value'), { maxLength: 3 }),
    fc
      .array(fc.tuple(name, tie('value')), { maxLength: 4 })
      .map(members => `{${members.map(([name, value]) => `${print(name)}:${print(value)}`).join()}}`)
      .map(json => JSON.parse(json)),
  ),
}))

const leaf: fc.Arbitrary<z.ZodType> = fc.oneof(
  fc.constantFrom<z.ZodType>(z.string(), z.number(), z.boolean(), z.null(), z.unknown(), z.int(), z.never()),
  fc.constantFrom<z.ZodType>(
    z.literal('a'),
    z.enum(['a', 'b', '1']),
    z.literal([1, null]),
    z.string().regex(/^[ab]+$/),
  ),
  fc.tuple(length, length).map(([min, max]) => z.string().min(min).max(max)),
  fc.tuple(number, number).map(([min, max]) => z.number().gt(min).lte(max)),
  fc.constant(z.unknown().refine(value => value === null || value === 'a')),
)
/** Schemas that change what they parse, or may. */
const changing = fc.constantFrom<z.ZodType>(
  z.string().default('a'),
  z.string().transform(text => text.length),
  z.string().trim(),
  z.coerce.number(),
  z.string().catch('a'),
  z.string().check(payload => void (payload.value = 'b')),
  z.object({ a: z.string() }),
  z.strictObject({ constructor: z.unknown().optional() }),
)
type Shape = Record<string, z.ZodType>
const objectMakers = [z.strictObject, z.looseObject] as ((shape: Shape) => z.ZodObject)[]
function schemasOf(leaves: fc.Arbitrary<z.ZodType>): fc.Arbitrary<z.ZodType> {
  const { schema } = fc.letrec<{ schema: z.ZodType; shape: Shape; object: z.ZodObject }>(tie => ({
    schema: fc.oneof(
      { maxDepth: 4, depthSize: 'medium' },
      leaves,
      tie('schema').map(inner => inner.optional()),
      tie('schema').map(inner => inner.nullable()),
      fc.tuple(tie('schema'), length).map(([inner, max]) => z.array(inner).min(1).max(max)),
      fc.tuple(fc.constantFrom(z.string(), z.string().max(1)), tie('schema')).map(([key, of]) => z.record(key, of)),
      fc.array(tie('schema'), { minLength: 1, maxLength: 3 }).map(options => z.union(options)),
      tie('object'),
      fc.array(tie('object'), { minLength: 1, maxLength: 2 }).map(([first, second]) => {
        const one = first!.extend({ type: z.literal('a') })
        const other = second?.extend({ type: z.enum(['b', 'c']) })
        return z.discriminatedUnion('type', other ? [one, other] : [one])
      }),
    ),
    shape: fc.dictionary(fc.constantFrom('a', 'b', 'c', 'type'), tie('schema'), { maxKeys: 3 }),
    object: fc.tuple(fc.constantFrom(...objectMakers), tie('shape')).map(([make, shape]) => make(shape)),
  }))
  return schema
}

test('a compiled predicate agrees with any schema that changes nothing', t => {
  const numRuns = fuzzRuns(500)
  let accepted = 0
  const property = fc.property(schemasOf(leaf), fc.array(value, { minLength: 20, maxLength: 20 }), (schema, values) => {
    for (const value of values) if (assertAgrees(schema, value)) accepted++
  })
  fc.assert(property, { numRuns })
  t.true(accepted > numRuns / 5, `only ${accepted} values accepted`)
})

test('what a schema changes is not accepted, wherever in it the change is made', t => {
  const property = fc.property(
    schemasOf(fc.oneof({ weight: 3, arbitrary: leaf }, changing)),
    fc.array(value, { minLength: 10, maxLength: 10 }),
    (schema, values) => {
      if (compilePredicate(schema) !== null) for (const value of values) assertAgrees(schema, value)
    },
  )
  fc.assert(property, { numRuns: fuzzRuns(500) })
  for (const schema of fc.sample(changing, 20)) t.is(compilePredicate(schema), null)
})

test('an instance of a class is not accepted, as parsing makes a plain object of it', t => {
  class Body {
    model = 'x'
    input = 'a'
  }
  t.deepEqual(validate(directKinds.embedding, new Body()), { model: 'x', input: 'a' })
  t.false(compilePredicate(directKinds.embedding)!(new Body()))
})

test('an exception of a refinement is the caller’s to see', t => {
  const schema = z.unknown().refine(() => {
    throw new RangeError('no')
  })
  t.throws(() => validate(schema, 1), { instanceOf: RangeError })
})
