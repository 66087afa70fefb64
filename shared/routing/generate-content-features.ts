import type { ChatMessage, ChatRequest } from '../kinds/chat.ts'
import { type GenerateContentRequest, type GenerationConfig, geminiTexts } from '../kinds/generate-content.ts'
import { generateContentMemberTables } from '../kinds/generate-content-members.ts'
import { type MemberVisitor, readMembers } from '../kinds/member-reader.ts'
import { usualWebSearches } from '../kinds/web-search.ts'
import { difficultyOf } from './difficulty.ts'
import { type Features, FoundFiles, messageOverhead, noMarks, toolOverhead, webSearchesOf } from './features.ts'
import { lastTextOf } from './last-text.ts'

/** The features of a request in Google's form whose JSON body has `bodyBytes` bytes. */
export function generateContentFeatures(body: GenerateContentRequest, bodyBytes: number): Features {
  const found = new FoundFiles()
  /** Characters of thought signatures, which count little or not at all. */
  let signatureCharacters = 0
  const visitor: MemberVisitor = {
    file: (rule, characters) => found.file(rule, characters),
    object({ thoughtSignature: state }) {
      if (typeof state === 'string') signatureCharacters += state.length
    },
  }
  const unlisted = readMembers(body, generateContentMemberTables, visitor, 'generate_content')
  const config = body.generationConfig ?? {}
  const textBytes = found.textBytes(bodyBytes)
  const promptTokensEstimate = Math.ceil(Math.max(0, textBytes - signatureCharacters) / 4) + found.tokensEstimate
  const offered = body.tools ?? []
  const tools = offered.some(({ functionDeclarations }) => functionDeclarations?.length)
  const outputs = new Set(config.responseModalities?.map(modality => modality.toLowerCase()))
  const format = formatOf(config)
  const hasFormat = format.jsonSchema || format.jsonObject
  const reads = offered.some(({ urlContext }) => urlContext) ? 1 : 0
  return {
    textTokensBound: textBytes + messageOverhead + (offered.length > 0 || hasFormat ? toolOverhead : 0),
    media: found.media,
    prompts: 1,
    promptTokensEstimate,
    maxPromptEstimate: promptTokensEstimate,
    maxTokens: config.maxOutputTokens || null,
    choices: config.candidateCount ?? 1,
    inputs: found.inputs,
    outputs: { image: outputs.has('image'), audio: outputs.has('audio') },
    voice: config.speechConfig != null,
    tools,
    cache1h: noMarks,
    ...format,
    logprobs: config.responseLogprobs === true,
    ...webSearchesOf(offered.some(({ googleSearch }) => googleSearch) ? usualWebSearches : 0, 0, false),
    ...(offered.some(({ codeExecution }) => codeExecution) && { extendsPrompt: true }),
    ...(reads > 0 && { toolReads: reads }),
    signedThinking: false,
    ...(unlisted.length > 0 && { unlisted }),
    difficulty: () => difficultyOf(asChat(body)),
    lastText: () => lastTextOf(asChat(body).messages),
  }
}

function formatOf(config: GenerationConfig): Pick<Features, 'jsonSchema' | 'jsonObject'> {
  const jsonSchema = hasSchema(config)
  return { jsonSchema, jsonObject: !jsonSchema && config.responseMimeType === 'application/json' }
}

function hasSchema({ responseSchema, responseJsonSchema }: GenerationConfig): boolean {
  return responseSchema !== undefined || responseJsonSchema != null
}

/** What the difficulty of a request is read from, as a chat request. */
function asChat({
  model,
  systemInstruction,
  contents,
  tools = [],
  generationConfig,
}: GenerateContentRequest): ChatRequest {
  const system = geminiTexts(systemInstruction).join('\n')
  const turns = contents.map(content => {
    const role = content.role === 'model' ? 'assistant' : 'user'
    return { role, content: geminiTexts(content).join('\n') } as ChatMessage
  })
  const functions = tools.flatMap(({ functionDeclarations = [] }) => functionDeclarations)
  return {
    model,
    messages: system === '' ? turns : [{ role: 'system', content: system }, ...turns],
    ...(functions.length > 0 && {
      tools: functions.map(() => ({ type: 'function' as const, function: { name: 'tool' } })),
    }),
    ...(hasSchema(generationConfig ?? {}) && {
      response_format: { type: 'json_schema' as const, json_schema: { name: 'answer' } },
    }),
  }
}
