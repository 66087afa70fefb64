import { dataOf, expectedNano } from '../support/chat/gateway.ts'

/** Traffic of coding agents: Messages to targets of that protocol, and to others. */
export type AgentKind = 'messages' | 'messages over chat'

const models: Record<AgentKind, string> = { messages: 'claude-sonnet-4.6', 'messages over chat': 'gpt-oss-120b' }
const tool = { name: 'Read', description: 'Reads a file.', input_schema: { type: 'object', properties: {} } }

/** A turn after a tool call, which asks for all of the model's output, as coding agents do. */
export function agentRequest(kind: AgentKind, mark: string): { path: string; body: object } {
  const messages = [
    { role: 'user', content: `mark=${mark} hello` },
    { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'Read', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'A file.' }] },
  ]
  const body = { model: models[kind], max_tokens: 128_000, stream: true, thinking: { type: 'adaptive' }, tools: [tool] }
  return { path: '/v1/messages', body: { ...body, messages } }
}

/** How an answer ended, and what it says that it costs; null = it does not say. */
export type Ending =
  | { outcome: 'whole'; costNano: number | null }
  | { outcome: 'error event'; code: string }
  | { outcome: 'cut' }

/** Reads a stream of events. Its cost is that of the usage that it states, at the prices of its provider. */
export function readMessages(kind: AgentKind, provider: string, text: string): Ending {
  const events = dataOf(text)
  const fault = events.find(({ type }) => type === 'error')
  if (fault) return { outcome: 'error event', code: fault.error.code }
  if (events.at(-1)?.type !== 'message_stop') return { outcome: 'cut' }
  const usages: object[] = events.flatMap(event => event.message?.usage ?? event.usage ?? [])
  const stated = usages.map(usage => Object.entries(usage).filter(([, count]) => count !== null))
  const usage = Object.assign({}, ...stated.map(entries => Object.fromEntries(entries)))
  const cached_tokens = usage.cache_read_input_tokens ?? 0
  const prompt_tokens = usage.input_tokens + cached_tokens
  const completion_tokens = usage.output_tokens
  const total_tokens = prompt_tokens + completion_tokens
  const counts = { prompt_tokens, completion_tokens, total_tokens, prompt_tokens_details: { cached_tokens } }
  return { outcome: 'whole', costNano: expectedNano(models[kind], counts, { provider }) }
}
