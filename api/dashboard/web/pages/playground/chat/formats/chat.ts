import { omitEmpty } from '../../omit-empty.ts'
import { keptAnswer, type Piece, type Turn } from '../turns.ts'
import type { Format } from './format.ts'
import { javascriptOf, pythonArguments } from './literals.ts'

type Delta = {
  content?: string | null
  reasoning?: string | null
  reasoning_content?: string | null
  images?: { image_url: { url: string } }[]
  tool_calls?: { index: number; id?: string; function?: { name?: string; arguments?: string } }[]
}
type Chunk = {
  id?: string
  model?: string
  provider?: string
  choices?: { delta?: Delta; finish_reason?: string | null }[]
  usage?: { prompt_tokens: number; completion_tokens: number; cost?: number } | null
  error?: Piece['error']
}

export const chat: Format = {
  label: 'Chat',
  path: '/v1/chat/completions',
  body({ model, system, turns, tools, mode, temperature, maxTokens, asksForPictures }) {
    const messages = turns.flatMap(turn => messageOf(turn) ?? [])
    return {
      model,
      stream: true,
      stream_options: { include_usage: true },
      ...omitEmpty({ mode, temperature, max_tokens: maxTokens }),
      ...(tools.length > 0 && { tools }),
      ...(asksForPictures && { modalities: ['image', 'text'] }),
      messages: system.trim() === '' ? messages : [{ role: 'system', content: system }, ...messages],
    }
  },
  read({ id, model, provider, choices, usage, error }: Chunk): Piece {
    const { delta, finish_reason } = choices?.[0] ?? {}
    return omitEmpty({
      id,
      model,
      provider,
      error,
      text: delta?.content,
      reasoning: delta?.reasoning ?? delta?.reasoning_content,
      pictures: delta?.images?.map(({ image_url }) => image_url.url),
      calls: delta?.tool_calls?.map(({ index, id: callId, function: called }) => ({
        key: index,
        id: callId,
        name: called?.name,
        arguments: called?.arguments,
      })),
      finishReason: finish_reason,
      costUsd: usage?.cost,
      tokens: usage && { prompt: usage.prompt_tokens, completion: usage.completion_tokens },
    }) as Piece
  },
  javascript: (origin, body) => `import OpenAI from 'openai'

const client = new OpenAI({ baseURL: '${origin}/v1', apiKey: process.env.HEADGATE_API_KEY })
const stream = await client.chat.completions.create(${javascriptOf(body)})
for await (const { choices } of stream) process.stdout.write(choices[0]?.delta.content ?? '')`,
  python: (origin, body) => `import os
from openai import OpenAI

client = OpenAI(base_url="${origin}/v1", api_key=os.environ["HEADGATE_API_KEY"])
stream = client.chat.completions.create(
${pythonArguments(body)})
for chunk in stream:
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)`,
}

function messageOf(turn: Turn): object | null {
  if (turn.role === 'tool') return { role: 'tool', tool_call_id: turn.callId, content: turn.text }
  if (turn.role === 'user') {
    const { text, pictures } = turn
    const parts = pictures.map(({ url }) => ({ type: 'image_url', image_url: { url } }))
    return {
      role: 'user',
      content: parts.length === 0 ? text : [...(text === '' ? [] : [{ type: 'text', text }]), ...parts],
    }
  }
  const { text, toolCalls } = keptAnswer(turn)
  if (text === '' && toolCalls.length === 0) return null
  const calls = toolCalls.map(call => ({
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: call.arguments },
  }))
  return { role: 'assistant', content: text || null, ...(calls.length > 0 && { tool_calls: calls }) }
}
