import { omitEmpty } from '../../omit-empty.ts'
import { keptAnswer, type Piece, type Turn } from '../turns.ts'
import { type Format, mapFunctions } from './format.ts'
import { javascriptOf, pythonArguments } from './literals.ts'

type Failure = { code: string; message: string; param?: string | null }
type Event = {
  type: string
  delta?: string
  output_index?: number
  item?: { type: string; call_id?: string; name?: string }
  response?: {
    id: string
    model: string
    incomplete_details?: { reason: string } | null
    usage?: { input_tokens: number; output_tokens: number } | null
    error?: Failure | null
  }
  error?: Failure
}

export const responses: Format = {
  label: 'Responses',
  path: '/v1/responses',
  body: ({ model, system, turns, tools, mode, temperature, maxTokens }) => ({
    model,
    stream: true,
    store: false,
    ...omitEmpty({
      mode,
      temperature,
      max_output_tokens: maxTokens,
      instructions: system.trim() === '' ? null : system,
    }),
    ...(tools.length > 0 && { tools: mapFunctions(tools, called => ({ type: 'function', ...called })) }),
    input: turns.flatMap(itemsOf),
  }),
  read({ type, delta, output_index: key = 0, item, response, error }: Event): Piece {
    switch (type) {
      case 'response.created':
        return { id: response!.id, model: response!.model }
      case 'response.output_text.delta':
      case 'response.refusal.delta':
        return { text: delta! }
      case 'response.reasoning_text.delta':
      case 'response.reasoning_summary_text.delta':
        return { reasoning: delta! }
      case 'response.output_item.added':
        return item?.type === 'function_call' ? { calls: [{ key, id: item.call_id!, name: item.name! }] } : {}
      case 'response.function_call_arguments.delta':
        return { calls: [{ key, arguments: delta! }] }
      case 'response.completed':
      case 'response.incomplete':
        return endOf(response!)
      case 'response.failed':
        return { error: errorOf(response?.error) }
      case 'error':
        return { error: errorOf(error) }
      default:
        return {}
    }
  },
  javascript: (origin, body) => `import OpenAI from 'openai'

const client = new OpenAI({ baseURL: '${origin}/v1', apiKey: process.env.HEADGATE_API_KEY })
const stream = await client.responses.create(${javascriptOf(body)})
for await (const event of stream)
  if (event.type === 'response.output_text.delta') process.stdout.write(event.delta)`,
  python: (origin, body) => `import os
from openai import OpenAI

client = OpenAI(base_url="${origin}/v1", api_key=os.environ["HEADGATE_API_KEY"])
stream = client.responses.create(
${pythonArguments(body)})
for event in stream:
    if event.type == "response.output_text.delta":
        print(event.delta, end="", flush=True)`,
}

function endOf({ incomplete_details: details, usage }: NonNullable<Event['response']>): Piece {
  return {
    finishReason: details?.reason === 'max_output_tokens' ? 'length' : 'stop',
    ...(usage && { tokens: { prompt: usage.input_tokens, completion: usage.output_tokens } }),
  }
}

function errorOf(failure: Partial<Failure> | null | undefined): NonNullable<Piece['error']> {
  const { code = 'server_error', message = 'The response failed.', param = null } = failure ?? {}
  return { code, message, param }
}

function itemsOf(turn: Turn): object[] {
  if (turn.role === 'tool') return [{ type: 'function_call_output', call_id: turn.callId, output: turn.text }]
  if (turn.role === 'user') {
    const { text, pictures } = turn
    const parts = pictures.map(({ url }) => ({ type: 'input_image', image_url: url }))
    const texts = text === '' ? [] : [{ type: 'input_text', text }]
    return [{ role: 'user', content: parts.length === 0 ? text : [...texts, ...parts] }]
  }
  const { text, toolCalls } = keptAnswer(turn)
  return [
    ...(text === '' ? [] : [{ role: 'assistant', content: text }]),
    ...toolCalls.map(({ id, name, arguments: json }) => ({
      type: 'function_call',
      call_id: id,
      name,
      arguments: json,
    })),
  ]
}
