import type { ChatMessage, ChatRequest } from '../kinds/chat.ts'
import {
  imageOf,
  isItem,
  isMessageItem,
  isPart,
  partsOf,
  type ResponsesPart,
  type ResponsesRequest,
} from '../kinds/responses.ts'
import { webSearchLimit } from '../kinds/web-search.ts'
import { difficultyOf } from './difficulty.ts'
import { estimateMediaTokens, type Features, messageOverhead, noMedia, toolOverhead } from './features.ts'
import { lastTextOf } from './last-text.ts'
import { webSearchesOf } from './web-searches.ts'

type Found = {
  images: number
  imageCharacters: number
  files: boolean
  fileCharacters: number
  audio: boolean
  audioCharacters: number
  /** Characters of encrypted reasoning, which providers count little or not at all. */
  reasoningCharacters: number
}

/** The features of a Responses request whose JSON body has `bodyBytes` bytes. */
export function responsesFeatures(body: ResponsesRequest, bodyBytes: number): Features {
  const found = findIn(body)
  const textBytes = Math.max(0, bodyBytes - found.imageCharacters - found.fileCharacters - found.audioCharacters)
  const mediaEstimate = estimateMediaTokens(found.images, found.audioCharacters, found.fileCharacters)
  const promptTokensEstimate = Math.ceil(Math.max(0, textBytes - found.reasoningCharacters) / 4) + mediaEstimate
  const tools = body.tools?.some(({ type }) => callableTools.has(type)) ?? false
  const format = body.text?.format?.type
  return {
    textTokensBound: textBytes + messageOverhead + (tools ? toolOverhead : 0),
    media: {
      ...noMedia,
      images: found.images,
      soundMs: found.audio ? null : noMedia.soundMs,
      documents: found.files ? null : noMedia.documents,
    },
    prompts: 1,
    promptTokensEstimate,
    maxPromptEstimate: promptTokensEstimate,
    maxTokens: body.max_output_tokens ?? null,
    choices: 1,
    inputs: { image: found.images > 0, audio: found.audio, file: found.files },
    outputs: { image: false, audio: false },
    voice: false,
    tools,
    cache1h: false,
    jsonSchema: format === 'json_schema',
    jsonObject: format === 'json_object',
    ...webSearchesOf(webSearchLimit(body), promptTokensEstimate + toolOverhead, 'responses'),
    logprobs: (body.top_logprobs ?? 0) > 0 || (body.include?.includes('message.output_text.logprobs') ?? false),
    signedThinking: false,
    difficulty: () => difficultyOf(asChat(body)),
    lastText: () => lastTextOf(asChat(body).messages),
  }
}

/** Tools that need a model with tool calls; hosted ones do not. */
const callableTools: ReadonlySet<string> = new Set(['function', 'custom', 'namespace'])

function findIn({ input }: ResponsesRequest): Found {
  const found: Found = {
    images: 0,
    imageCharacters: 0,
    files: false,
    fileCharacters: 0,
    audio: false,
    audioCharacters: 0,
    reasoningCharacters: 0,
  }
  const visit = (part: ResponsesPart) => {
    const image = imageOf(part)
    if (image) {
      found.images++
      if (image.url.startsWith('data:')) found.imageCharacters += image.url.length
    } else if (isPart(part, 'input_file')) {
      found.files = true
      found.fileCharacters += part.file_data?.length ?? 0
    } else if (isPart(part, 'input_audio')) {
      found.audio = true
      found.audioCharacters += part.input_audio.data.length
    }
  }
  if (typeof input === 'string') return found
  for (const item of input) {
    if (isItem(item, 'reasoning')) found.reasoningCharacters += item.encrypted_content?.length ?? 0
    for (const part of partsOf(item)) visit(part)
  }
  return found
}

/** What the difficulty of a request is read from, as a chat request. */
function asChat({ model, instructions, input, tools, text }: ResponsesRequest): ChatRequest {
  const items = typeof input === 'string' ? [{ role: 'user' as const, content: input }] : input
  const chat = items.flatMap(item =>
    isMessageItem(item) ? ({ role: item.role, content: textOf(item.content) } as ChatMessage) : [],
  )
  return {
    model,
    messages: instructions ? [{ role: 'system', content: instructions }, ...chat] : chat,
    ...(tools && { tools: tools.map(() => ({ type: 'function' as const, function: { name: 'tool' } })) }),
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
