import { events, json, type Recorded, type Reply } from '../../emulators/emulator.ts'
import { chatChunk } from '../../emulators/openai.ts'

/** A Gemini answer in these parts, each in an event of its own when streamed. */
export const geminiParts = (...parts: object[]): Reply => {
  const counts = { promptTokenCount: 8, candidatesTokenCount: 4, thoughtsTokenCount: 3, totalTokenCount: 15 }
  const answer = (some: object[], ends: boolean) => ({
    candidates: [{ content: { role: 'model', parts: some }, index: 0, ...(ends && { finishReason: 'STOP' }) }],
    usageMetadata: counts,
  })
  return (request: Recorded, response) => {
    if (!request.path.endsWith(':streamGenerateContent')) return json(200, answer(parts, true))(request, response)
    const pieces = parts.map(
      (part, index) => `data: ${JSON.stringify(answer([part], index === parts.length - 1))}\r\n\r\n`,
    )
    return events(pieces)(request, response)
  }
}

/** Reasoning of each type as OpenRouter returns it. */
export const routerDetails = [
  { type: 'reasoning.summary', summary: 'Looked it up.', id: null, format: 'openai-responses-v1', index: 0 },
  { type: 'reasoning.encrypted', data: 'gAAAAABo+/=', id: 'rs_1', format: 'openai-responses-v1', index: 0 },
  { type: 'reasoning.text', text: 'So.', signature: 'c2ln', id: null, format: 'anthropic-claude-v1', index: 1 },
]
const usage = { prompt_tokens: 8, completion_tokens: 4, total_tokens: 12 }

/** An OpenRouter answer with these details, its stream as OpenRouter cuts it. */
export const routerReply =
  (details: object[]): Reply =>
  (request, response) => {
    const message = { role: 'assistant', content: 'Cold.', reasoning: 'So.', reasoning_details: details }
    const choices = [{ index: 0, message, finish_reason: 'stop' }]
    if (!request.body.stream) return json(200, { id: 'gen-1', model: 'm', choices, usage })(request, response)
    const chunks = [
      ...details.map(detail =>
        chatChunk({ role: 'assistant', content: '', reasoning: null, reasoning_details: [detail] }),
      ),
      ...['Co', 'l', 'd', '.'].map(content => chatChunk({ content, reasoning: null, reasoning_details: [] })),
      chatChunk({ content: '' }, 'stop', { usage }),
    ]
    return events([...chunks.map(chunk => `data: ${JSON.stringify(chunk)}\n\n`), 'data: [DONE]\n\n'])(request, response)
  }
