import type { ChatRequest } from '../kinds/chat.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Target, UpstreamRequest } from '../providers/contract.ts'
import { fitChat } from '../providers/profile/fit-chat.ts'
import { completeMessages, ownFields } from '../providers/toolkit/request-fields.ts'
import { chatFeatures, completionFeatures, embeddingFeatures, type Features } from './features.ts'
import { generateContentFeatures } from './generate-content-features.ts'
import { messagesFeatures } from './messages-features.ts'
import { responsesFeatures } from './responses-features.ts'

/** The tokens of a request that is longer than a context; `output` where it is the requested output that does not fit. */
type OverflowCounts = { input: number; output: number | null; limit: number }

/** The words by which the clients of a dialect recognise why a request is refused. */
type RefusalWords = {
  /** What a request that is too long is told, and whether a message says so already. */
  overflow(counts: OverflowCounts): string
  isOverflow(message: string): boolean
  /** What is said of a capability that a model lacks. `rejected`: its class in Anthropic's API. */
  unmet(message: string, rejected: string | undefined): string
}

/** What routing needs to know of a dialect; the rest of it is its `ChatFormat` (`shared/chat/chat-format.ts`). */
export type RequestFormat<K extends DirectKind> = {
  readFeatures(body: DirectKinds[K]['request'], bodyBytes: number): Features
  /** The field that has the prompt, in errors. */
  readonly promptField: string
  readonly words: RefusalWords
  /** Whether it is a conversation with a chat model. */
  readonly isConversation: boolean
  /** Whether errors name the content block with a stored file, rather than its source. */
  readonly namesBlocks: boolean
  /** Adds what a valid request may leave out, or say in another way. */
  complete?(body: DirectKinds[K]['request']): DirectKinds[K]['request']
  /** Whether every provider's dialect can express a request, as far as can be told without translating it. */
  isPlain?(body: DirectKinds[K]['request']): boolean
  /** Fits a request to the profile of its target, also where the provider has the same dialect. */
  fit?(body: DirectKinds[K]['request'], target: Target): Pick<UpstreamRequest, 'dropped' | 'adjusted' | 'structuredBy'>
}

/** Anthropic's words; its clients know the class of a missing capability from them. */
const anthropicWords: RefusalWords = {
  overflow: ({ input, output, limit }) =>
    output === null
      ? `prompt is too long: ${input} tokens > ${limit} maximum (capability_rejected: prompt_too_long)`
      : `input length and \`max_tokens\` exceed context limit: ${input} + ${output} > ${limit} (capability_rejected: max_tokens_context_overflow)`,
  isOverflow: message => message.includes('(capability_rejected: '),
  unmet: (message, rejected) => (rejected ? `${message} (capability_rejected: ${rejected})` : `${message}.`),
}

/** OpenAI's beginning (LiteLLM's and crewAI's lists), and the code in the text (langchain-openai reads only the message). */
function openAiWords(promptField: string): RefusalWords {
  const code = '(context_length_exceeded)'
  return {
    overflow({ input, output, limit }) {
      const used =
        output === null
          ? `your ${promptField} resulted in ${input} tokens`
          : `you requested ${input + output} tokens (${input} in the ${promptField}, ${output} in the completion)`
      return `This model's maximum context length is ${limit} tokens. However, ${used}. ${code}`
    },
    isOverflow: message => message.includes(code),
    unmet: message => `${message}.`,
  }
}

/** Google's words (ai.google.dev/gemini-api/docs/troubleshooting; our chat adapter reads the same ones). */
const googleWords: RefusalWords = {
  overflow: ({ input, output, limit }) =>
    `The input token count (${input + (output ?? 0)}) exceeds the maximum number of tokens allowed (${limit}).`,
  isOverflow: message => message.startsWith('The input token count '),
  unmet: message => `${message}.`,
}

/** The part of each dialect that routing needs. */
export const requestFormats: { readonly [K in DirectKind]: RequestFormat<K> } = {
  chat: {
    readFeatures: chatFeatures,
    promptField: 'messages',
    words: openAiWords('messages'),
    isConversation: true,
    namesBlocks: false,
    complete: completeMessages,
    isPlain: isPlainChat,
    fit: fitChat,
  },
  completion: {
    readFeatures: completionFeatures,
    promptField: 'prompt',
    words: openAiWords('prompt'),
    isConversation: false,
    namesBlocks: false,
  },
  embedding: {
    readFeatures: embeddingFeatures,
    promptField: 'input',
    words: openAiWords('input'),
    isConversation: false,
    namesBlocks: false,
  },
  messages: {
    readFeatures: messagesFeatures,
    promptField: 'messages',
    words: anthropicWords,
    isConversation: true,
    namesBlocks: true,
  },
  responses: {
    readFeatures: responsesFeatures,
    promptField: 'messages',
    words: openAiWords('messages'),
    isConversation: true,
    namesBlocks: false,
  },
  generate_content: {
    readFeatures: generateContentFeatures,
    promptField: 'contents',
    words: googleWords,
    isConversation: true,
    namesBlocks: false,
  },
}

/** The dialect of a kind that is known only as one of several. */
export function requestFormatOf<K extends DirectKind>(kind: K): RequestFormat<K> {
  return requestFormats[kind]
}

type Message = ChatRequest['messages'][number]

/** The fields that every dialect has, or may leave out. */
const plainFields: ReadonlySet<string> = new Set([
  ...ownFields,
  ...['model', 'messages', 'stream', 'stream_options', 'max_tokens', 'max_completion_tokens', 'stop', 'user'],
  ...['temperature', 'top_p', 'tools', 'tool_choice', 'parallel_tool_calls'],
])
/** The least of the providers' limits. */
const maxTools = 128
const plainMessageFields: ReadonlySet<string> = new Set(['role', 'content', 'name', 'tool_calls', 'tool_call_id'])

/**
 * Whether a chat request has only what every dialect can express: text, functions that the model may call, and the usual
 * settings. Most requests do, so that `auto` need not translate them to find out.
 */
export function isPlainChat(body: ChatRequest): boolean {
  for (const field in body) if (!plainFields.has(field)) return false
  const { tools, tool_choice: choice, messages } = body
  if (choice !== undefined && choice !== 'auto' && choice !== 'none') return false
  if (tools && tools.length > maxTools) return false
  // Not every model continues an answer.
  if (messages.at(-1)!.role === 'assistant') return false
  return (tools?.every(isFunction) ?? true) && messages.every(isPlainMessage)
}

function isPlainMessage(message: Message): boolean {
  for (const field in message) if (!plainMessageFields.has(field)) return false
  if (message.role === 'function') return false
  if (message.role === 'assistant' && message.tool_calls?.every(isFunction) === false) return false
  const { content } = message
  return typeof content === 'string' || content == null || content.every(part => part.type === 'text')
}

function isFunction({ type }: { type: string }): boolean {
  return type === 'function'
}
