import { isObject } from '../../../../../shared/base/is-object.ts'
import type { FormatName, Settings } from './chat/settings.tsx'
import type { Picture, Turn } from './chat/turns.ts'

type Json = Record<string, unknown>
type Entry = { role: string; content: unknown } & Json

const noSettings = { system: '', mode: '', temperature: '', maxTokens: '', tools: '', pictures: false } as const

/**
 * The fields with which the playground opens a request of a type, by name: its settings, and what it asked as far as the forms
 * can show it.
 */
export function fieldsOf(type: string, body: object): Record<string, unknown> {
  const json = body as Json
  const { prompt, input, temperature = '', max_tokens: maxTokens = '' } = json
  if (type === 'completion') return { 'completions.fields': { prompt: textOf(prompt), maxTokens, temperature } }
  if (type === 'embedding') return { 'embeddings.fields': { input: textOf(input), dimensions: json.dimensions ?? '' } }
  if (type === 'chat' || type === 'messages' || type === 'responses') return chatFields(type, json)
  return {}
}

function chatFields(format: FormatName, json: Json): Record<string, unknown> {
  const entries = entriesOf(json)
  const systems = entries.filter(({ role }) => role === 'system' || role === 'developer')
  const system = [textOf(json.system), textOf(json.instructions), ...systems.map(({ content }) => textOf(content))]
  const settings: Settings = {
    ...noSettings,
    format,
    system: system.filter(text => text !== '').join('\n\n'),
    mode: typeof json.mode === 'string' ? json.mode : '',
    temperature: typeof json.temperature === 'number' ? json.temperature : '',
    maxTokens: limitOf(json),
    tools: toolsOf(json.tools),
  }
  const turns = entries.filter(entry => !systems.includes(entry)).map((entry, i) => turnOf(entry, i - entries.length))
  const last = turns.at(-1)
  if (last?.role !== 'user') return { 'chat.settings': settings, 'chat.turns': turns }
  // The last message is a draft: it is sent by a click.
  const draft = { text: last.text, pictures: last.pictures }
  return { 'chat.settings': settings, 'chat.turns': turns.slice(0, -1), 'chat.draft': draft }
}

/** The messages of any of the formats. */
function entriesOf({ messages, input }: Json): Entry[] {
  if (typeof input === 'string') return [{ role: 'user', content: input }]
  const list = Array.isArray(messages) ? messages : Array.isArray(input) ? input : []
  return list.filter((entry): entry is Entry => isObject(entry) && typeof entry.role === 'string')
}

/** `id`: below those of the playground’s own turns. */
function turnOf({ role, content, tool_call_id: callId, tool_calls: calls }: Entry, id: number): Turn {
  const text = textOf(content)
  if (role === 'tool') return { id, role, callId: String(callId), name: '', text }
  if (role !== 'assistant') return { id, role: 'user', text, pictures: picturesOf(content) }
  const toolCalls = listOf(calls).map(({ id: call, function: called }, key) => ({
    key,
    id: String(call),
    name: String((called as Json | undefined)?.name ?? ''),
    arguments: String((called as Json | undefined)?.arguments ?? ''),
  }))
  const answer = { text, reasoning: '', toolCalls, pictures: [], finishReason: null }
  return { id, role, answer, state: 'done', facts: null, error: null }
}

/** The text of a content: itself, or that of its parts. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  const parts = Array.isArray(content) ? content : []
  return parts
    .map(part => (typeof part === 'string' ? part : isObject(part) && typeof part.text === 'string' ? part.text : ''))
    .filter(text => text !== '')
    .join('\n')
}

/** The images of a content, in each format's way. */
function picturesOf(content: unknown): Picture[] {
  return listOf(content).flatMap(({ image_url: image, source }, i) => {
    const own = isObject(image) ? image.url : image
    const inline =
      isObject(source) && source.type === 'base64' ? `data:${source.media_type};base64,${source.data}` : null
    const url = inline ?? own
    return typeof url === 'string' ? [{ name: `Image ${i + 1}`, url }] : []
  })
}

function limitOf({ max_tokens, max_completion_tokens, max_output_tokens }: Json): number | string {
  const limit = max_tokens ?? max_completion_tokens ?? max_output_tokens
  return typeof limit === 'number' ? limit : ''
}

/** Functions as chat completions take them; other tools as they are. */
function toolsOf(tools: unknown): string {
  const list = listOf(tools).map(tool => {
    const { name, description, parameters, input_schema: schema } = tool
    if (isObject(tool.function) || typeof name !== 'string') return tool
    return { type: 'function', function: { name, description, parameters: parameters ?? schema } }
  })
  return list.length === 0 ? '' : JSON.stringify(list, null, 2)
}

function listOf(value: unknown): Json[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}
