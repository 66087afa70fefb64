import { startAnthropicEmulator } from '../emulators/anthropic.ts'
import { startBedrockEmulator } from '../emulators/bedrock.ts'
import { startChatProvider } from '../emulators/chat-rules.ts'
import { startGeminiEmulator } from '../emulators/gemini.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

/** Schemas that the decoder of a provider cannot express: none is sent in the place of another. */
const upstreamSecret = 'upstream-secret'
const emulators = {
  anthropic: use(test, () => startAnthropicEmulator()),
  bedrock: use(test, () => startBedrockEmulator({ tokens: [upstreamSecret] })),
  cerebras: use(test, () => startChatProvider('cerebras')),
  gemini: use(test, () => startGeminiEmulator()),
  openai: use(test, () => startChatProvider('openai')),
  openrouter: use(test, () => startChatProvider('lenient')),
}
const gateway = useGateway(test, () => ({
  ANTHROPIC_API_KEY: upstreamSecret,
  ANTHROPIC_BASE_URL: emulators.anthropic.url,
  AWS_BEARER_TOKEN_BEDROCK: upstreamSecret,
  BEDROCK_REGIONS: 'us-east-1',
  BEDROCK_US_EAST_1_BASE_URL: emulators.bedrock.url,
  BEDROCK_US_EAST_1_ANTHROPIC_BASE_URL: `${emulators.bedrock.url}/anthropic`,
  CEREBRAS_API_KEY: upstreamSecret,
  CEREBRAS_BASE_URL: `${emulators.cerebras.url}/v1`,
  GEMINI_API_KEY: upstreamSecret,
  GEMINI_BASE_URL: emulators.gemini.url,
  OPENAI_API_KEY: upstreamSecret,
  OPENAI_BASE_URL: `${emulators.openai.url}/v1`,
  OPENROUTER_API_KEY: upstreamSecret,
  OPENROUTER_BASE_URL: `${emulators.openrouter.url}/v1`,
}))
test.beforeEach(() => {
  for (const emulator of Object.values(emulators)) emulator.reset()
})

type Schema = Record<string, unknown>
// biome-ignore lint/suspicious/noExplicitAny: requests to every provider
type Any = any
type Provider = keyof typeof emulators
const chat = '/v1/chat/completions'
const models: Record<Provider, string> = {
  anthropic: 'claude-haiku-4-5',
  bedrock: 'claude-sonnet-4-6',
  cerebras: 'gpt-oss-120b',
  gemini: 'gemini-3.5-flash',
  openai: 'gpt-4o',
  openrouter: 'claude-sonnet-4-5',
}
const converse = { only: ['bedrock/us-east-1'], ignore: ['bedrock/us-east-1/anthropic'] }
const providers: Partial<Record<Provider, object>> = { bedrock: converse }

async function ask(provider: Provider, body: object, path = chat) {
  const { live: key } = await gateway.account()
  const own = { model: models[provider], provider: providers[provider] ?? { only: [provider] } }
  const response = await gateway.fetch(path, { key, body: { ...own, ...body } })
  const { status, headers } = response
  return {
    status,
    text: await response.text(),
    by: headers.get('x-gateway-structured-output'),
    adjusted: headers.get('x-gateway-adjusted'),
    dropped: headers.get('x-gateway-dropped'),
    sent: emulators[provider].requests.at(-1)?.body,
  }
}

const messages = [{ role: 'user', content: 'What is the weather in Oslo?' }]
const json = (schema: Schema, strict?: boolean) => ({
  response_format: { type: 'json_schema', json_schema: { name: 'x', schema, ...(strict && { strict }) } },
})
/** A stream is not checked: the emulators know no schema. */
const answering = (schema: Schema) => ({ messages, stream: true, ...json(schema) })
const tool = (parameters: Schema, more: Schema = {}) => ({
  type: 'function',
  function: { name: 'weather', parameters, ...more },
})
const object = (properties: Schema, more: Schema = {}) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
  ...more,
})
const text = { type: 'string' }

/** As pydantic, Zod 4, TypeBox and OpenAPI write dictionaries, records and models with further members. */
const openObjects: Schema[] = [
  { type: 'object', additionalProperties: { type: 'integer' } },
  { type: 'object', additionalProperties: true },
  { type: ['object', 'null'], additionalProperties: {} },
  { type: 'object', propertyNames: { type: 'string' }, additionalProperties: { type: 'number' } },
  { type: 'object', patternProperties: { '^[a-z]+$': text } },
  { type: 'object', patternProperties: { '^[a-z]+$': text }, additionalProperties: false },
  { type: 'object' },
  object({ name: text }, { additionalProperties: true }),
  object({ name: text }, { additionalProperties: undefined, required: ['name', 'other'] }),
  // biome-ignore lint/suspicious/noThenProperty: the member of JSON Schema
  { type: 'object', properties: { a: text }, if: { required: ['a'] }, then: { properties: { b: text } } },
]

test.serial(
  '200 with dictionaries at models that close objects: by a tool or the prompt, with the whole schema',
  async t => {
    for (const inner of openObjects) {
      for (const schema of [
        object({ m: inner }),
        { ...inner, type: 'object' },
        object({ l: { type: 'array', items: inner } }),
      ])
        for (const provider of ['anthropic', 'bedrock', 'cerebras', 'openrouter'] as const) {
          const at = `${provider} ${JSON.stringify(schema)}`
          const { status, text: answer, by, sent } = await ask(provider, answering(schema))
          t.is(status, 200, `${at}: ${answer}`)
          t.regex(by!, /^(tool|prompt)$/, at)
          t.false(JSON.stringify(sent).includes('json_schema'), at)
          const asked = JSON.stringify(sent).replaceAll('\\"', '"').replaceAll('\\\\', '\\')
          t.true(asked.includes(JSON.stringify(inner.type === 'object' ? inner : schema).slice(1, -1)), at)
        }
    }
    const dictionary = object({ m: openObjects[0]! })
    const format = { type: 'json_schema', name: 'x', schema: dictionary }
    const responses = await ask('anthropic', { input: 'Hi', stream: true, text: { format } }, '/v1/responses')
    t.is(responses.by, 'prompt', responses.text)
    t.is(responses.sent.output_config?.format, undefined)
    const output_config = { format: { type: 'json_schema', schema: dictionary } }
    const message = { max_tokens: 99, messages, stream: true, output_config }
    t.is((await ask('openrouter', message, '/v1/messages')).by, 'prompt')
    const contents = [{ role: 'user', parts: [{ text: 'Hi' }] }]
    const google = { type: 'OBJECT', properties: { m: { type: 'OBJECT' } }, required: ['m'] }
    for (const schemas of [{ responseJsonSchema: dictionary }, { responseSchema: google }]) {
      const generationConfig = { responseMimeType: 'application/json', ...schemas }
      const generated = { model: undefined, contents, generationConfig }
      const at = `/v1beta/models/${models.anthropic}:streamGenerateContent`
      t.is((await ask('anthropic', generated, at)).by, 'prompt')
    }
    const whole = await ask('anthropic', {
      messages,
      reasoning_effort: 'none',
      ...json(object({ city: text }, { additionalProperties: text })),
    })
    t.is(whole.by, 'tool, validated')
    t.deepEqual(JSON.parse(JSON.parse(whole.text).choices[0].message.content), { city: 'Oslo' })
  },
)

test.serial('200 with objects that can be closed: in the model’s format, as before', async t => {
  const open = { type: 'object', properties: { city: text }, required: ['city'] }
  for (const schema of [open, object({}), object({ a: open, b: { type: 'array', items: open } })])
    for (const provider of ['anthropic', 'bedrock', 'cerebras', 'openrouter'] as const) {
      const { status, text: answer, by, adjusted } = await ask(provider, answering(schema))
      t.is(status, 200, answer)
      t.is(by, 'native', provider)
      t.is(adjusted, null, provider)
    }
})

test.serial('200 with strict tools whose parameters cannot be closed: they are not strict', async t => {
  const closed = object({ city: text })
  const tools = [tool(object({ m: openObjects[0]! }), { name: 'a', strict: true }), tool(closed, { strict: true })]
  const claude = await ask('anthropic', { messages, tools })
  t.is(claude.status, 200, claude.text)
  t.is(claude.dropped, 'tools.0.function.strict')
  t.is(claude.adjusted, null)
  t.deepEqual(claude.sent.tools[0].input_schema, object({ m: openObjects[0]! }))
  t.deepEqual(
    claude.sent.tools.map((one: Schema) => one.strict),
    [undefined, true],
  )
  const cerebras = await ask('cerebras', { messages, tools })
  t.is(cerebras.status, 200, cerebras.text)
  t.is(cerebras.dropped, 'tools.0.function.strict,tools.1.function.strict')
  t.deepEqual(cerebras.sent.tools[0].function.parameters, object({ m: openObjects[0]! }))
})

test.serial('200 with intersections of objects at models that close objects: they are one object', async t => {
  const x = object({ x: text })
  const y = { type: 'object', properties: { y: text }, required: ['y'] }
  const both = { type: 'object', properties: { x: text, y: text }, required: ['x', 'y'], additionalProperties: false }
  const $defs = { X: x }
  const intersections: [given: Schema, sent: Schema][] = [
    [{ allOf: [x, y] }, both],
    [{ allOf: [{ $ref: '#/$defs/X' }, y] }, both],
    [
      { type: 'object', properties: { y: text }, required: ['y'], allOf: [{ $ref: '#/$defs/X' }] },
      { ...both, required: ['y', 'x'] },
    ],
    [{ allOf: [{ $ref: '#/$defs/X' }], default: {} }, { $ref: '#/$defs/X' }],
  ]
  for (const [given, expected] of intersections)
    for (const provider of ['anthropic', 'bedrock', 'openrouter'] as const) {
      const nested = object({ p: given }, { $defs })
      const { status, text: answer, by, sent } = await ask(provider, answering(nested))
      t.is(status, 200, answer)
      t.is(by, 'native', provider)
      const { p } = formatOf(sent).properties
      t.like(p, expected, `${provider} ${JSON.stringify(given)}`)
      t.is(p.allOf, undefined)
    }
  const inconsistent = { allOf: [object({ x: text }), object({ x: { type: 'integer' } })] }
  t.is((await ask('anthropic', answering(object({ p: inconsistent })))).by, 'prompt')
  const texts = object({ p: { allOf: [text, { enum: ['a'] }] } })
  t.is((await ask('anthropic', answering(texts))).by, 'native')
  const named = object({ p: { allOf: [{ $ref: '#/$defs/T' }, { enum: ['a'] }] } }, { $defs: { T: text } })
  t.is((await ask('anthropic', answering(named))).by, 'prompt')
})

test.serial('200 with alternatives beside properties at models that close objects', async t => {
  const alternatives = [object({ a: text }), object({ b: text })]
  const either = await ask('anthropic', answering(object({ p: { type: 'object', anyOf: alternatives } })))
  t.is(either.by, 'native', either.text)
  t.is(either.adjusted, null)
  t.deepEqual(formatOf(either.sent).properties.p, { anyOf: alternatives })
  const base = { type: 'object', properties: { k: text }, required: ['k'], oneOf: alternatives }
  const merged = await ask('anthropic', answering(object({ p: base })))
  t.is(merged.adjusted, 'response_format', 'that they exclude each other is told')
  const { p } = formatOf(merged.sent).properties
  t.like(p, { properties: { k: text, a: text, b: text }, required: ['k'], additionalProperties: false })
})

/** The schema of the format that a provider was sent. */
function formatOf({ output_config, outputConfig, response_format, generationConfig }: Any): Any {
  const converseSchema = outputConfig?.textFormat.structure.jsonSchema.schema
  if (converseSchema) return JSON.parse(converseSchema)
  return output_config?.format.schema ?? response_format?.json_schema.schema ?? generationConfig?.responseJsonSchema
}

test.serial('200 with `definitions` at Gemini, which knows `$defs` only', async t => {
  const $schema = 'http://json-schema.org/draft-07/schema#'
  const definitions = { A: object({ x: text }), B: object({ a: { $ref: '#/definitions/A' } }) }
  const named = { $schema, $ref: '#/definitions/B', definitions }
  const city = object({ deep: { $ref: '#/properties/city/definitions/C' } }, { definitions: { C: text } })
  const nested = { $schema, ...object({ city, b: { $ref: '#/definitions/B' } }), definitions }
  const sentCity = object({ deep: { $ref: '#/properties/city/$defs/C' } }, { $defs: { C: text } })
  const $defs = { A: object({ x: text }), B: object({ a: { $ref: '#/$defs/A' } }) }
  for (const model of ['gemini-3.5-flash', 'gemini-2.5-flash'])
    for (const [given, expected] of [
      [named, { $schema, $ref: '#/$defs/B', $defs }],
      [nested, { $schema, ...object({ city: sentCity, b: { $ref: '#/$defs/B' } }), $defs }],
    ] as const) {
      const format = await ask('gemini', { model, ...answering(given) })
      t.is(format.status, 200, format.text)
      t.is(format.adjusted, null)
      t.deepEqual(formatOf(format.sent), expected as Schema)
      const called = await ask('gemini', { model, messages, tools: [tool(given)] })
      t.is(called.status, 200, called.text)
      t.is(called.adjusted, null)
      t.deepEqual(called.sent.tools[0].functionDeclarations[0].parametersJsonSchema, expected as Schema)
      const body = {
        model,
        input: 'Hi',
        stream: true,
        text: { format: { type: 'json_schema', name: 'x', schema: given } },
      }
      t.deepEqual(formatOf((await ask('gemini', body, '/v1/responses')).sent), expected as Schema)
    }
})

test.serial('200 at Gemini with what stands beside a reference, in `allOf`, or is a pattern of names', async t => {
  const $defs = { A: object({ x: text }) }
  const $ref = '#/$defs/A'
  const parameters = object(
    {
      told: { $ref, description: 'The first.' },
      titled: { $ref, title: 'A' },
      optional: { $ref, description: 'The second.', default: null },
      part: { allOf: [{ $ref }], description: 'The third.' },
      both: { allOf: [{ $ref }, object({ y: text })] },
      names: { type: 'object', patternProperties: { '^a': text }, additionalProperties: false, description: 'Names.' },
    },
    { $defs },
  )
  const { status, text: answer, adjusted, sent } = await ask('gemini', { messages, tools: [tool(parameters)] })
  t.is(status, 200, answer)
  t.is(adjusted, 'tools.0.function.parameters', 'the pattern is told')
  t.deepEqual(sent.tools[0].functionDeclarations[0].parametersJsonSchema, {
    ...parameters,
    properties: {
      told: { description: 'The first.', anyOf: [{ $ref }] },
      titled: { $ref },
      optional: { description: 'The second.', default: null, anyOf: [{ $ref }] },
      part: { description: 'The third.', anyOf: [{ $ref }] },
      both: object({ x: text, y: text }),
      names: {
        type: 'object',
        additionalProperties: text,
        description: 'Names.\n\n{patternProperties: {"^a":{"type":"string"}}}',
      },
    },
  })
})

test.serial('200 with records as Zod 4 writes them at OpenAI, which refuses `propertyNames`', async t => {
  const record = (propertyNames: Schema) => object({ m: { type: 'object', propertyNames, additionalProperties: text } })
  const m = { type: 'object', additionalProperties: text }
  const [any, some] = [record({ type: 'string' }), record({ enum: ['a', 'b'] })]
  for (const [schema, adjusted] of [
    [any, null],
    [some, 'response_format'],
  ] as const) {
    const given = await ask('openai', answering(schema))
    t.is(given.status, 200, given.text)
    t.is(given.adjusted, adjusted)
    t.like(formatOf(given.sent).properties.m, m)
    const text = { format: { type: 'json_schema', name: 'x', schema } }
    const native = await ask('openai', { input: 'Hi', text }, '/v1/responses')
    t.is(native.status, 200, native.text)
    t.is(native.adjusted, adjusted && 'text.format.schema')
  }
})

test.serial(
  '200 with a record as the parameters of a tool of Nova, which has no word for one: it is named',
  async t => {
    const record = { type: 'object', additionalProperties: text }
    const nova = { model: 'nova-2-lite', provider: { only: ['bedrock/us-east-1'] } }
    const called = await ask('bedrock', { ...nova, messages, tools: [tool(record)] })
    t.is(called.status, 200, called.text)
    t.is(called.adjusted, 'tools.0.function.parameters')
    const answered = await ask('bedrock', { ...nova, reasoning_effort: 'none', ...answering(record) })
    t.is(answered.by, 'prompt', answered.text)
  },
)

test.serial('200 with strict schemas that OpenAI’s strict mode refuses: they are sent, but not as strict', async t => {
  const loose = {
    type: 'object',
    properties: { city: text, day: text },
    required: ['city'],
    additionalProperties: false,
  }
  // Names of properties are no members of a schema.
  const closed = object({ properties: object({ a: text }), city: text })
  for (const [schema, isStrict] of [
    [object({ m: openObjects[0]! }), false],
    [object({ m: openObjects[5]! }), false],
    [loose, false],
    [closed, true],
  ] as const) {
    const given = await ask('openai', { messages, ...json(schema, true), tools: [tool(schema, { strict: true })] })
    t.is(given.status, 200, given.text)
    t.is(given.adjusted, isStrict ? null : 'response_format')
    t.is(given.dropped, isStrict ? null : 'tools.0.function.strict')
    t.like(given.sent.response_format.json_schema, { schema, strict: isStrict })
    t.is(given.sent.tools[0].function.strict, isStrict ? true : undefined)
    const called = { type: 'function', name: 'weather', parameters: schema, strict: true }
    const format = { type: 'json_schema', name: 'x', schema, strict: true }
    const native = await ask('openai', { input: 'Hi', tools: [called], text: { format } }, '/v1/responses')
    t.is(native.status, 200, native.text)
    t.is(native.adjusted, isStrict ? null : 'tools.0.strict,text.format.strict')
    t.like(native.sent.text.format, { schema, strict: isStrict })
    t.like(native.sent.tools[0], { parameters: schema, strict: isStrict })
  }
})
