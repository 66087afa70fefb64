import { omitEmpty } from '../../omit-empty.ts'
import { keptAnswer, type Piece, type Turn } from '../turns.ts'
import { type Format, imageOf, mapFunctions } from './format.ts'
import { javascriptOf, pythonArguments } from './literals.ts'

/** The format requires a limit. */
export const usualMaxTokens = 4_096

type Usage = {
  input_tokens?: number | null
  cache_read_input_tokens?: number | null
  cache_creation_input_tokens?: number | null
  output_tokens?: number | null
}
type Event = {
  type: string
  index?: number
  message?: { id: string; model: string; usage?: Usage }
  content_block?: { type: string; id?: string; name?: string }
  delta?: { text?: string; thinking?: string; partial_json?: string; stop_reason?: string | null }
  usage?: Usage
  error?: { type: string; message: string; code?: string; param?: string | null }
}
type Block = { type: string; text?: string; [field: string]: unknown }
type Message = { role: 'user' | 'assistant'; content: string | Block[] }

export const messages: Format = {
  label: 'Messages',
  path: '/v1/messages',
  body: ({ model, maxOutputTokens, system, turns, tools, mode, temperature, maxTokens }) => ({
    model,
    max_tokens: maxTokens === '' ? Math.min(usualMaxTokens, maxOutputTokens ?? usualMaxTokens) : maxTokens,
    stream: true,
    ...omitEmpty({ mode, temperature, system: system.trim() === '' ? null : system }),
    ...(tools.length > 0 && {
      tools: mapFunctions(tools, ({ parameters = { type: 'object' }, ...called }) => ({
        ...called,
        input_schema: parameters,
      })),
    }),
    messages: messagesOf(turns),
  }),
  read({ type, index: key = 0, message, content_block: block, delta, usage, error }: Event): Piece {
    switch (type) {
      case 'message_start':
        return { id: message!.id, model: message!.model, tokens: tokensOf(message!.usage) }
      case 'content_block_start':
        return block!.type === 'tool_use' ? { calls: [{ key, id: block!.id!, name: block!.name! }] } : {}
      case 'content_block_delta':
        return omitEmpty({
          text: delta!.text,
          reasoning: delta!.thinking,
          calls: delta!.partial_json === undefined ? undefined : [{ key, arguments: delta!.partial_json }],
        }) as Piece
      case 'message_delta':
        return {
          finishReason: delta!.stop_reason === 'max_tokens' ? 'length' : (delta!.stop_reason ?? null),
          tokens: tokensOf(usage),
        }
      case 'message_stop':
        return { isLast: true }
      case 'error':
        return { error: { code: error!.code ?? error!.type, message: error!.message, param: error!.param ?? null } }
      default:
        return {}
    }
  },
  javascript: (origin, body) => `import Anthropic from '@anthropic-ai/sdk'

const client = new Anthropic({ baseURL: '${origin}', authToken: process.env.HEADGATE_API_KEY, apiKey: null })
const stream = client.messages.stream(${javascriptOf(withoutStream(body))})
stream.on('text', text => process.stdout.write(text))
await stream.done()`,
  python: (origin, body) => `import os
from anthropic import Anthropic

client = Anthropic(base_url="${origin}", auth_token=os.environ["HEADGATE_API_KEY"])
with client.messages.stream(
${pythonArguments(withoutStream(body))}) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)`,
}

/** The SDKs' helper for streams sets it. */
function withoutStream(body: object): object {
  const { stream: _, ...rest } = body as { stream?: boolean }
  return rest
}

function tokensOf(usage: Usage = {}): NonNullable<Piece['tokens']> {
  const { input_tokens: input, cache_read_input_tokens: read, cache_creation_input_tokens: written } = usage
  return omitEmpty({
    prompt: input == null ? undefined : input + (read ?? 0) + (written ?? 0),
    completion: usage.output_tokens ?? undefined,
  }) as NonNullable<Piece['tokens']>
}

/** The roles alternate: the results of tools and what the user says after them are one message. */
function messagesOf(turns: Turn[]): Message[] {
  const all: { role: Message['role']; content: Block[] }[] = []
  for (const turn of turns) {
    const role = turn.role === 'assistant' ? 'assistant' : 'user'
    const content = blocksOf(turn)
    if (content.length === 0) continue
    if (all.at(-1)?.role === role) all.at(-1)!.content.push(...content)
    else all.push({ role, content })
  }
  return all.map(({ role, content }) => {
    const [first] = content
    return { role, content: content.length === 1 && first?.text ? first.text : content }
  })
}

function blocksOf(turn: Turn): Block[] {
  if (turn.role === 'tool') return [{ type: 'tool_result', tool_use_id: turn.callId, content: turn.text }]
  if (turn.role === 'user') {
    const images = turn.pictures.map(({ url }) => {
      const { type, data } = imageOf(url)
      return { type: 'image', source: { type: 'base64', media_type: type, data } }
    })
    return [...textBlocks(turn.text), ...images]
  }
  const { text, toolCalls } = keptAnswer(turn)
  const calls = toolCalls.map(({ id, name, arguments: json }) => ({
    type: 'tool_use',
    id,
    name,
    input: parsed(json),
  }))
  return [...textBlocks(text), ...calls]
}

function textBlocks(text: string): Block[] {
  return text === '' ? [] : [{ type: 'text', text }]
}

/** A model may write arguments that are no JSON. */
function parsed(json: string): unknown {
  try {
    return JSON.parse(json || '{}')
  } catch {
    return {}
  }
}
