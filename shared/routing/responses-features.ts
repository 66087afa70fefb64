import { GatewayError } from '../base/errors.ts'
import type { ChatMessage, ChatRequest } from '../kinds/chat.ts'
import { type MemberVisitor, readMembers } from '../kinds/member-reader.ts'
import {
  asksToManageContext,
  compactionThreshold,
  isMessageItem,
  isPart,
  type ResponsesPart,
  type ResponsesRequest,
} from '../kinds/responses.ts'
import { responsesMemberTables } from '../kinds/responses-members.ts'
import { declaredTools, isClientSearch } from '../kinds/responses-tools.ts'
import { webSearchLimit } from '../kinds/web-search.ts'
import { difficultyOf } from './difficulty.ts'
import { type Features, FoundFiles, messageOverhead, noMarks, toolOverhead, webSearchesOf } from './features.ts'
import { lastTextOf } from './last-text.ts'

/** The features of a Responses request whose JSON body has `bodyBytes` bytes. */
export function responsesFeatures(body: ResponsesRequest, bodyBytes: number): Features {
  // With what the request continues.
  if (body.input.length === 0)
    throw new GatewayError('invalid_request', '`input` must not be empty.', { param: 'input' })
  const found = new FoundFiles()
  /** Characters of encrypted reasoning, which providers count little or not at all. */
  let reasoningCharacters = 0
  const visitor: MemberVisitor = {
    file: (rule, characters) => found.file(rule, characters),
    object({ type, encrypted_content: state }) {
      if (type === 'reasoning' && typeof state === 'string') reasoningCharacters += state.length
    },
  }
  const unlisted = readMembers(body, responsesMemberTables, visitor, 'responses')
  const textBytes = found.textBytes(bodyBytes)
  const promptTokensEstimate = Math.ceil(Math.max(0, textBytes - reasoningCharacters) / 4) + found.tokensEstimate
  const tools = declaredTools(body).some(({ tool }) => callableTools.has(tool.type) || isClientSearch(tool))
  const format = body.text?.format?.type
  const jsonSchema = format === 'json_schema'
  const jsonObject = format === 'json_object'
  const firstPrompt = textBytes + messageOverhead + (tools || jsonSchema || jsonObject ? toolOverhead : 0)
  // A provider that compacts the conversation reads it once more.
  const isManaged = asksToManageContext(body)
  const prompts = isManaged && firstPrompt > (compactionThreshold(body) ?? 0) ? 2 : 1
  return {
    textTokensBound: firstPrompt * prompts,
    media: found.media,
    prompts,
    promptTokensEstimate,
    maxPromptEstimate: promptTokensEstimate,
    maxTokens: body.max_output_tokens ?? null,
    choices: 1,
    inputs: found.inputs,
    outputs: { image: false, audio: false },
    voice: false,
    tools,
    cache1h: noMarks,
    jsonSchema,
    jsonObject,
    ...webSearchesOf(webSearchLimit(body), promptTokensEstimate + toolOverhead, true),
    ...(isManaged && { extendsPrompt: true }),
    logprobs: (body.top_logprobs ?? 0) > 0 || (body.include?.includes('message.output_text.logprobs') ?? false),
    signedThinking: false,
    ...(unlisted.length > 0 && { unlisted }),
    difficulty: () => difficultyOf(asChat(body)),
    lastText: () => lastTextOf(asChat(body).messages),
  }
}

/** Tools that need a model with tool calls; hosted ones do not. */
const callableTools: ReadonlySet<string> = new Set(['function', 'custom', 'namespace'])

/** What the difficulty of a request is read from, as a chat request. */
function asChat({ model, instructions, input, tools: listed, text }: ResponsesRequest): ChatRequest {
  const tools = declaredTools({ tools: listed, input })
  const items = typeof input === 'string' ? [{ role: 'user' as const, content: input }] : input
  const chat = items.flatMap(item =>
    isMessageItem(item) ? ({ role: item.role, content: textOf(item.content) } as ChatMessage) : [],
  )
  return {
    model,
    messages: instructions ? [{ role: 'system', content: instructions }, ...chat] : chat,
    ...(tools.length > 0 && { tools: tools.map(() => ({ type: 'function' as const, function: { name: 'tool' } })) }),
    ...(text?.format?.type === 'json_schema' && {
      response_format: { type: 'json_schema' as const, json_schema: { name: 'answer' } },
    }),
  }
}

function textOf(content: string | readonly ResponsesPart[]): string {
  if (typeof content === 'string') return content
  return content
    .flatMap(part => (isPart(part, 'input_text') || isPart(part, 'output_text') ? part.text : []))
    .join('\n')
}
