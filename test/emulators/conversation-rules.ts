import { type Any, firstOf, type Rule, refused, unprocessable } from './chat-rule.ts'

/** What servers refuse in an earlier answer that a client hands back. */

/** Arguments of a call that are no JSON object; '' is taken. */
export const brokenArguments: Rule = {
  source:
    'https://github.com/MoonshotAI/kimi-cli/issues/1378 (Moonshot: a 400), in vLLM’s words: https://github.com/vllm-project/vllm/issues/43995, https://github.com/vllm-project/vllm/pull/48922',
  refusal: ({ messages }) =>
    firstOf<Any, Any>(messages, ({ tool_calls: calls }) =>
      firstOf<Any, Any>(calls, ({ function: fn }) => {
        const fault = fn?.arguments && faultOf(fn.arguments)
        return fault && refused(fault)
      }),
    ),
}

function faultOf(text: string): string | null {
  try {
    const value: unknown = JSON.parse(text)
    return value instanceof Object && !Array.isArray(value) ? null : 'Can only get item pairs from a mapping.'
  } catch (error) {
    return (error as Error).message
  }
}

/** Other members of a call than those of the API. */
export const extraCallMembers: Rule = {
  source: 'https://github.com/zeroclaw-labs/zeroclaw/issues/3572; mistralai/client-python: ToolCall, FunctionCall',
  refusal: ({ messages }) =>
    firstOf<Any, Any>(messages, ({ role, tool_calls: calls }, index) =>
      firstOf<Any, Any>(calls, (call, at) => {
        const extra =
          Object.keys(call).find(name => !['id', 'type', 'function', 'index'].includes(name)) ??
          Object.keys(call.function).find(name => !['name', 'arguments'].includes(name))
        return (
          extra &&
          unprocessable(
            'extra_forbidden',
            ['messages', index, role, 'tool_calls', at, extra],
            'Extra inputs are not permitted',
          )
        )
      }),
    ),
}

/** Empty texts in lists. */
export const emptyTexts: Rule = {
  source: 'https://github.com/BerriAI/litellm/issues/42186; of Z.ai: https://github.com/earendil-works/pi/issues/9797',
  refusal: ({ messages }) =>
    firstOf<Any, Any>(
      messages,
      ({ content }) =>
        Array.isArray(content) &&
        content.some(({ text }: Any) => text === '') &&
        refused('Invalid request: text content is empty'),
    ),
}

/** An answer of the assistant without a word or a call; a refusal of its own is neither. `words`: those of the provider. */
export function emptyAnswers(source: string, words: string): Rule {
  return {
    source,
    refusal: ({ messages }) =>
      firstOf<Any, Any>(
        messages,
        ({ role, content, tool_calls: calls }) =>
          role === 'assistant' && !content?.length && !calls?.length && refused(words),
      ),
  }
}

/** Parts of an answer that are no text. */
export const answerParts: Rule = {
  source:
    'mistralai/client-python: ContentChunk (text, image_url, document_url, reference, file, thinking, input_audio)',
  refusal: ({ messages }) =>
    firstOf<Any, Any>(messages, ({ role, content }, index) => {
      const part = role === 'assistant' && Array.isArray(content) && content.find(({ type }: Any) => type === 'refusal')
      return (
        part &&
        unprocessable(
          'union_tag_invalid',
          ['messages', index, role, 'content'],
          `Input tag '${part.type}' found using 'type' does not match any of the expected tags`,
        )
      )
    }),
}
