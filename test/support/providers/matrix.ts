import { emptyEnvelope } from '../../../shared/kinds/reasoning.ts'
import { textureFile } from '../../../shared/providers/sandbox/media/mesh-files.ts'
import { pdfOfPages } from '../media/documents.ts'

export type MatrixDialect = 'chat' | 'messages' | 'responses'
export const dialects: readonly MatrixDialect[] = ['chat', 'messages', 'responses']

/** A model at a provider, and what it lacks by its catalog row. */
export type MatrixTarget = {
  provider: string
  model: string
  /** The form of the ids of tool calls that it makes. */
  callId: string
  lacks?: readonly ('image' | 'pdf')[]
}

export const targets: readonly MatrixTarget[] = [
  { provider: 'openai', model: 'gpt-5.4', callId: 'call_PTLP8xhu3uwZk4l3nlnrrJha' },
  { provider: 'openai', model: 'gpt-4o', callId: 'call_PTLP8xhu3uwZk4l3nlnrrJhb' },
  { provider: 'anthropic', model: 'claude-sonnet-4-5', callId: 'toolu_01A09q90qw90lq917835lq9' },
  { provider: 'anthropic', model: 'claude-haiku-4-5', callId: 'toolu_01A09q90qw90lq917835lq7' },
  { provider: 'anthropic', model: 'claude-opus-5-5', callId: 'toolu_01A09q90qw90lq917835lq8' },
  {
    provider: 'gemini',
    model: 'gemini-3.5-flash',
    callId: `ab12cd34__sig__${Buffer.from('thought:x').toString('base64url')}`,
  },
  { provider: 'gemini', model: 'gemini-2.5-flash', callId: 'call_gemini25' },
  {
    provider: 'groq',
    model: 'gpt-oss-120b',
    callId: 'fc_0b1c2d3e-1111-4222-8333-444455556666',
    lacks: ['image', 'pdf'],
  },
  { provider: 'mistral', model: 'mistral-medium-3.5', callId: 'aB3dE5gH7', lacks: ['pdf'] },
  { provider: 'deepseek', model: 'deepseek-v4-pro', callId: 'call_00_Ab12', lacks: ['image', 'pdf'] },
  { provider: 'moonshot', model: 'kimi-k2.5', callId: 'functions.weather:1', lacks: ['pdf'] },
  { provider: 'moonshot', model: 'kimi-k3', callId: 'functions.weather:2', lacks: ['pdf'] },
  { provider: 'alibaba', model: 'glm-5.2', callId: 'call_ab12cd34ef58', lacks: ['image', 'pdf'] },
  { provider: 'cerebras', model: 'gpt-oss-120b', callId: 'call_ab12cd34ef59', lacks: ['image', 'pdf'] },
  { provider: 'xai', model: 'grok-4.3', callId: 'call_12345678', lacks: ['pdf'] },
  { provider: 'openrouter', model: 'kimi-k2.5', callId: 'functions.weather:0', lacks: ['pdf'] },
  { provider: 'together', model: 'llama-4-maverick', callId: 'call_ab12cd34ef56', lacks: ['pdf'] },
  { provider: 'fireworks', model: 'glm-5.2', callId: 'call_ab12cd34ef57', lacks: ['image', 'pdf'] },
]

type Json = Record<string, unknown>
type Feature = {
  /** The request; null where the dialect does not have it. */
  body(dialect: MatrixDialect, target: MatrixTarget): Json | null
  isRefused?(target: MatrixTarget): boolean
  /** What the answer contains, as the client knows it. */
  answer?(body: Json): string
}

const image = textureFile().toString('base64')
const pdf = pdfOfPages(1).toString('base64')
const strictSchema = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}
/** As pydantic and zod write it: rules, references with a description, objects that are open. */
const looseSchema = {
  type: 'object',
  properties: {
    rating: { type: 'integer', minimum: 1, maximum: 5 },
    title: { type: 'string', maxLength: 80 },
    home: { $ref: '#/$defs/Place', description: 'Where they live.' },
  },
  required: ['rating', 'title', 'home'],
  $defs: { Place: { type: 'object', properties: { town: { type: 'string' } }, required: ['town'] } },
}
/** As tools of MCP servers have it: alternatives at the root, tuples, arrays of anything, keys of queries. */
const oldSchema = {
  type: 'object',
  properties: {
    'filter[city]': { description: 'Any.' },
    window: { type: 'array', items: [{ type: 'number' }, { type: 'number' }] },
    tags: { type: 'array' },
    level: { type: 'integer', minimum: 0, exclusiveMinimum: true },
  },
  anyOf: [{ required: ['filter[city]'] }, { required: ['tags'] }],
}
/** Longer than most providers take. */
const longName = `mcp__weather_service__${'look_up_'.repeat(8)}now`

/** The parts of a request apart from its messages, in a dialect. */
function settings(dialect: MatrixDialect, { model }: MatrixTarget, more: Json = {}): Json {
  if (dialect === 'chat') return { model, max_completion_tokens: 500, ...more }
  return dialect === 'messages'
    ? { model, max_tokens: 500, ...more }
    : { model, max_output_tokens: 500, store: false, ...more }
}

function asking(dialect: MatrixDialect, target: MatrixTarget, more: Json = {}): Json {
  if (dialect === 'responses') return settings(dialect, target, { instructions: 'Be brief.', input: 'Hi', ...more })
  const messages = [{ role: 'user', content: 'Hi' }]
  if (dialect === 'messages') return settings(dialect, target, { system: 'Be brief.', messages, ...more })
  return settings(dialect, target, { messages: [{ role: 'developer', content: 'Be brief.' }, ...messages], ...more })
}

function toolsOf(dialect: MatrixDialect, name: string, parameters: Json, strict?: true): Json {
  const flag = strict && { strict }
  if (dialect === 'chat') return { tools: [{ type: 'function', function: { name, parameters, ...flag } }] }
  if (dialect === 'messages') return { tools: [{ name, input_schema: parameters, ...flag }] }
  return { tools: [{ type: 'function', name, parameters, strict: strict ?? false }] }
}

/** The providers whose Responses are native. */
const servesResponses = new Set(['openai', 'xai', 'openrouter'])

type Call = { id: string; name: string }

/** A user's question, calls of the model with their results, and what the user says then. */
function rounds(dialect: MatrixDialect, rounds: readonly { calls: Call[] }[], reasoning?: string): Json {
  const steps = rounds.flatMap(({ calls }): object[] => {
    if (dialect === 'chat')
      return [
        { role: 'user', content: 'And here?', name: 'ann' },
        {
          role: 'assistant',
          content: null,
          refusal: null,
          ...(reasoning && { reasoning_content: reasoning }),
          tool_calls: calls.map(({ id, name }) => ({
            id,
            type: 'function',
            function: { name, arguments: '{"city":"Oslo"}' },
          })),
        },
        ...calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: '{"sky":"rain"}' })),
      ]
    if (dialect === 'messages')
      return [
        { role: 'user', content: 'And here?' },
        {
          role: 'assistant',
          content: [
            ...(reasoning ? [{ type: 'thinking', thinking: reasoning, signature: emptyEnvelope }] : []),
            ...calls.map(({ id, name }) => ({ type: 'tool_use', id, name, input: { city: 'Oslo' } })),
          ],
        },
        { role: 'user', content: calls.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: 'rain' })) },
      ]
    return [
      { role: 'user', content: 'And here?' },
      ...(reasoning ? [{ type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: reasoning }] }] : []),
      ...calls.map(({ id, name }) => ({ type: 'function_call', call_id: id, name, arguments: '{"city":"Oslo"}' })),
      ...calls.map(({ id }) => ({ type: 'function_call_output', call_id: id, output: 'rain' })),
    ]
  })
  const last = { role: 'user', content: 'Thanks. And tomorrow?' }
  return dialect === 'responses' ? { input: [...steps, last] } : { messages: merged(dialect, [...steps, last]) }
}

/** Messages of one role in a row as one, as Anthropic's clients write them. */
function merged(dialect: MatrixDialect, messages: object[]): object[] {
  if (dialect !== 'messages') return messages
  const turns: { role: string; content: object[] }[] = []
  for (const { role, content } of messages as { role: string; content: string | object[] }[]) {
    const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content
    if (turns.at(-1)?.role === role) turns.at(-1)!.content.push(...blocks)
    else turns.push({ role, content: [...blocks] })
  }
  return turns
}

function formatOf(dialect: MatrixDialect, schema: Json, strict: boolean): Json {
  if (dialect === 'chat')
    return {
      response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, ...(strict && { strict }) } },
    }
  if (dialect === 'messages') return { output_config: { format: { type: 'json_schema', schema } } }
  return { text: { format: { type: 'json_schema', name: 'answer', schema, ...(strict && { strict }) } } }
}

function seeing(dialect: MatrixDialect, target: MatrixTarget, kind: 'image' | 'pdf'): Json {
  const uri = kind === 'image' ? `data:image/jpeg;base64,${image}` : `data:application/pdf;base64,${pdf}`
  if (dialect === 'chat') {
    const part =
      kind === 'image'
        ? { type: 'image_url', image_url: { url: uri } }
        : { type: 'file', file: { filename: 'a.pdf', file_data: uri } }
    return asking(dialect, target, { messages: [{ role: 'user', content: [{ type: 'text', text: 'See' }, part] }] })
  }
  if (dialect === 'messages') {
    const source = {
      type: 'base64',
      media_type: kind === 'image' ? 'image/png' : 'application/pdf',
      data: kind === 'image' ? image : pdf,
    }
    const block = { type: kind === 'image' ? 'image' : 'document', source }
    return asking(dialect, target, { messages: [{ role: 'user', content: [{ type: 'text', text: 'See' }, block] }] })
  }
  const part =
    kind === 'image'
      ? { type: 'input_image', image_url: uri }
      : { type: 'input_file', filename: 'a.pdf', file_data: uri }
  return asking(dialect, target, { input: [{ role: 'user', content: [{ type: 'input_text', text: 'See' }, part] }] })
}

/** Claude's own API takes the rules of its clients as they are: only what has to fit is sent there natively. */
const isNativeClaude = (dialect: MatrixDialect, { provider }: MatrixTarget) =>
  dialect === 'messages' && provider === 'anthropic'
const lacks = (one: NonNullable<MatrixTarget['lacks']>[number]) => (target: MatrixTarget) =>
  target.lacks?.includes(one) === true
const weather = (id: string): Call => ({ id, name: 'weather' })

/** A question that every emulator answers by a call of the first tool. */
function askingForWeather(dialect: MatrixDialect, target: MatrixTarget, more: Json): Json {
  const content = 'What is the weather in Oslo?'
  return asking(
    dialect,
    target,
    dialect === 'responses' ? { input: content, ...more } : { messages: [{ role: 'user', content }], ...more },
  )
}

function callingLongName(dialect: MatrixDialect, target: MatrixTarget): Json {
  // OpenAI’s Responses take their clients’ names as they are.
  const isNative = dialect === 'responses' && servesResponses.has(target.provider)
  return askingForWeather(
    dialect,
    target,
    toolsOf(dialect, isNative ? longName.slice(0, 64) : longName, { type: 'object' }),
  )
}

function callingCustom(dialect: MatrixDialect, target: MatrixTarget): Json | null {
  if (dialect === 'messages') return null
  const tool =
    dialect === 'chat' ? { type: 'custom', custom: { name: 'weather' } } : { type: 'custom', name: 'weather' }
  return askingForWeather(dialect, target, { tools: [tool] })
}

function nameOfTool({ tools }: Json): string {
  const [tool] = tools as { name?: string; function?: { name: string } }[]
  return `"${tool!.function?.name ?? tool!.name}"`
}

export const features: Record<string, Feature> = {
  plain: { body: (dialect, target) => asking(dialect, target) },
  stream: { body: (dialect, target) => asking(dialect, target, { stream: true }) },
  'system messages only': {
    body: (dialect, target) =>
      dialect === 'chat'
        ? settings(dialect, target, { messages: [{ role: 'system', content: 'Write a title.' }] })
        : null,
  },
  'system messages later': {
    body: (dialect, target) => {
      if (dialect !== 'chat') return null
      const late = { role: 'system', content: 'Be polite.' }
      const [first, answer, result] = rounds(dialect, [{ calls: [weather(target.callId)] }]).messages as object[]
      const tools = toolsOf(dialect, 'weather', { type: 'object', properties: {} })
      return asking(dialect, target, { ...tools, messages: [first, answer, result, late, first, late] })
    },
  },
  'an answer first': {
    body: (dialect, target) => {
      const messages = [
        { role: 'assistant', content: 'Hello!' },
        { role: 'user', content: 'Hi' },
      ]
      return dialect === 'messages'
        ? null
        : asking(dialect, target, dialect === 'responses' ? { input: messages } : { messages })
    },
  },
  sampling: {
    body: (dialect, target) =>
      isNativeClaude(dialect, target) ? null : asking(dialect, target, { temperature: 0.4, top_p: 0.9 }),
  },
  'a long answer': {
    body: (dialect, target) => {
      const limits = { chat: 'max_completion_tokens', messages: 'max_tokens', responses: 'max_output_tokens' }
      return asking(dialect, target, { [limits[dialect]]: 8_000 })
    },
  },
  'a high temperature': {
    body: (dialect, target) => (dialect === 'messages' ? null : asking(dialect, target, { temperature: 1.9 })),
  },
  'greedy sampling': {
    body: (dialect, target) =>
      isNativeClaude(dialect, target) ? null : asking(dialect, target, { temperature: 0, top_p: 0.9 }),
  },
  'tools, twice round': {
    body: (dialect, target) =>
      settings(dialect, target, {
        ...toolsOf(dialect, 'weather', { type: 'object', properties: {} }),
        ...rounds(dialect, [{ calls: [weather(target.callId)] }, { calls: [weather(`${target.callId}x`.slice(-9))] }]),
      }),
  },
  'parallel tools': {
    body: (dialect, target) =>
      settings(dialect, target, {
        ...toolsOf(dialect, 'weather', { type: 'object', properties: {} }),
        ...rounds(dialect, [{ calls: [weather('call_1'), weather('toolu_01AbC')] }]),
      }),
  },
  'a forced tool': {
    body: (dialect, target) => {
      const tools = toolsOf(dialect, 'weather', { type: 'object', properties: {} })
      if (isNativeClaude(dialect, target)) return null
      return asking(dialect, target, { ...tools, tool_choice: dialect === 'messages' ? { type: 'any' } : 'required' })
    },
  },
  'a long name of a tool without arguments': { body: callingLongName, answer: nameOfTool },
  'a long name of a tool in a stream': {
    body: (dialect, target) => ({ ...callingLongName(dialect, target), stream: true }),
    answer: nameOfTool,
  },
  'a custom tool': { body: callingCustom, answer: () => '"custom' },
  'a custom tool in a stream': {
    body: (dialect, target) => {
      const body = callingCustom(dialect, target)
      return body && { ...body, stream: true }
    },
    answer: () => '"custom',
  },
  'a strict tool by a loose schema': {
    body: (dialect, target) =>
      isNativeClaude(dialect, target) ? null : asking(dialect, target, toolsOf(dialect, 'rate', looseSchema, true)),
  },
  'a tool as MCP servers have it': {
    body: (dialect, target) =>
      isNativeClaude(dialect, target) ? null : asking(dialect, target, toolsOf(dialect, 'find', oldSchema)),
  },
  'a schema': {
    body: (dialect, target) =>
      isNativeClaude(dialect, target) ? null : asking(dialect, target, formatOf(dialect, looseSchema, false)),
  },
  'a JSON object': {
    body: (dialect, target) => {
      // OpenAI’s Responses refuse their own clients for want of the word.
      if (dialect === 'messages' || (dialect === 'responses' && servesResponses.has(target.provider))) return null
      const format = { type: 'json_object' }
      return asking(dialect, target, dialect === 'chat' ? { response_format: format } : { text: { format } })
    },
  },
  'a strict schema': {
    body: (dialect, target) => asking(dialect, target, formatOf(dialect, strictSchema, true)),
  },
  'a streamed schema': {
    body: (dialect, target) => asking(dialect, target, { ...formatOf(dialect, strictSchema, true), stream: true }),
  },
  'tools and a schema': {
    body: (dialect, target) =>
      asking(dialect, target, {
        ...formatOf(dialect, strictSchema, true),
        ...toolsOf(dialect, 'weather', strictSchema),
      }),
  },
  'an image': { body: (dialect, target) => seeing(dialect, target, 'image'), isRefused: lacks('image') },
  'a PDF': { body: (dialect, target) => seeing(dialect, target, 'pdf'), isRefused: lacks('pdf') },
  ...Object.fromEntries(
    ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'].map((effort): [string, Feature] => [
      `effort ${effort}`,
      {
        body(dialect, target) {
          if (dialect === 'chat') return asking(dialect, target, { reasoning_effort: effort })
          if (dialect === 'responses') return asking(dialect, target, { reasoning: { effort } })
          if (effort === 'none') return asking(dialect, target, { thinking: { type: 'disabled' } })
          return isNativeClaude(dialect, target) || effort === 'minimal'
            ? null
            : asking(dialect, target, { output_config: { effort } })
        },
      },
    ]),
  ),
  'reasoning handed back': {
    body: (dialect, target) =>
      settings(dialect, target, {
        ...toolsOf(dialect, 'weather', { type: 'object', properties: {} }),
        ...rounds(dialect, [{ calls: [weather(target.callId)] }], 'I should look.'),
      }),
  },
}
