import type { DirectKind } from '../kinds/index.ts'

/** The tokens of a request that is longer than a context; `output` where it is the requested output that does not fit. */
export type OverflowCounts = { input: number; output: number | null; limit: number }

/** The field that has the prompt. */
export const promptField: Record<DirectKind, string> = {
  chat: 'messages',
  messages: 'messages',
  responses: 'messages',
  completion: 'prompt',
  embedding: 'input',
}

const capability = '(capability_rejected: '
const code = '(context_length_exceeded)'

/**
 * What a request that is too long is told. Clients look for these words: Anthropic's in the Messages format; in the others
 * OpenAI's beginning (LiteLLM's and crewAI's lists), and the code in the text (langchain-openai reads only the message).
 */
export function overflowMessage(kind: DirectKind, { input, output, limit }: OverflowCounts): string {
  if (kind === 'messages')
    return output === null
      ? `prompt is too long: ${input} tokens > ${limit} maximum ${capability}prompt_too_long)`
      : `input length and \`max_tokens\` exceed context limit: ${input} + ${output} > ${limit} ${capability}max_tokens_context_overflow)`
  const field = promptField[kind]
  const used =
    output === null
      ? `your ${field} resulted in ${input} tokens`
      : `you requested ${input + output} tokens (${input} in the ${field}, ${output} in the completion)`
  return `This model's maximum context length is ${limit} tokens. However, ${used}. ${code}`
}

/** Whether a message is in those words. */
export function isStatedOverflow(kind: DirectKind, message: string): boolean {
  return message.includes(kind === 'messages' ? capability : code)
}
