import type { Usage } from '../../../shared/base/usage.ts'

/** Requests in the formats of Responses and Messages, for a model whose provider has the format and for one whose has not. */

export type Dialect = '/v1/responses' | '/v1/messages'
export const dialects: readonly Dialect[] = ['/v1/responses', '/v1/messages']

export const nativeModel = { '/v1/responses': 'gpt-4o-mini', '/v1/messages': 'claude-sonnet-4-5' } as const
export const foreignModel = { '/v1/responses': 'claude-sonnet-4-5', '/v1/messages': 'gpt-4o-mini' } as const

/** A request of one user message; `more` adds to its body. */
export function asking(dialect: Dialect, model: string, content = 'Hello', more: object = {}): object {
  return dialect === '/v1/responses'
    ? { model, input: content, max_output_tokens: 50, ...more }
    : { model, max_tokens: 50, messages: [{ role: 'user', content }], ...more }
}

/** The text of an answer in any of the formats, and its usage in our shape. */
// biome-ignore lint/suspicious/noExplicitAny: answers of both formats
export function readAnswer(answer: any): { text: string; usage: Usage } {
  const blocks = answer.object === 'response' ? answer.output.flatMap(contentOf) : answer.content
  const { input_tokens: prompt_tokens, output_tokens: completion_tokens } = answer.usage
  const text = blocks.map((block: { text?: string }) => block.text ?? '').join('')
  return { text, usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens } }
}

function contentOf({ content = [] }: { content?: object[] }): object[] {
  return content
}
