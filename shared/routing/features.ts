import type { ServiceTier } from '../base/service-tier.ts'
import { imageTokens } from '../catalog/image-tokens.ts'
import type { ModelRow } from '../catalog/schema.ts'
import type { DocumentSize } from '../io/media/pdf.ts'
import { asksFor1hCache } from '../kinds/cache-marks.ts'
import type { ChatRequest } from '../kinds/chat.ts'
import { chatMemberTables } from '../kinds/chat-members.ts'
import { type CompletionRequest, usualMaxTokens } from '../kinds/completion.ts'
import type { EmbeddingRequest } from '../kinds/embedding.ts'
import { type FileKind, type FileRule, readMembers, type Unlisted } from '../kinds/member-reader.ts'
import { difficultyOf } from './difficulty.ts'
import { lastTextOf } from './last-text.ts'

/** The properties of a request that routing and admission need. */
export type Features = {
  /** Upper bound of the text tokens of the prompt: no tokenizer produces more tokens than bytes. */
  textTokensBound: number
  /** Non-text content of the prompt. Its maximum cost depends on the target (`shared/routing/pricing.ts`). */
  media: PromptMedia
  /** Number of separate prompts: each may fill the model's context. */
  prompts: number
  /** Estimated tokens of all prompts. */
  promptTokensEstimate: number
  /** Estimated tokens of the longest prompt. */
  maxPromptEstimate: number
  /** The caller's output limit per choice; null = none. */
  maxTokens: number | null
  choices: number
  /**
   * Upper bound of the tokens of a predicted answer. OpenAI bills those that the answer does not have as output, beyond its
   * limit (https://platform.openai.com/docs/guides/predicted-outputs). Absent = none is predicted.
   */
  predictedTokens?: number
  inputs: { image: boolean; audio: boolean; file: boolean }
  outputs: { image: boolean; audio: boolean }
  /** Whether the request specifies a voice and an audio format. */
  voice: boolean
  tools: boolean
  /** Whether a cache mark asks for one hour, whose writes may have a price of their own. */
  cache1h(): boolean
  jsonSchema: boolean
  jsonObject: boolean
  logprobs: boolean
  /** Whether it says how the model is to search the web by itself; absent = it does not. */
  searchOptions?: boolean
  /** Whether a model that searches by itself is not to search. */
  disablesSearch?: boolean
  /** The searches of the web by the provider's own tool; absent = it is not asked for. */
  webSearches?: WebSearches
  /**
   * Whether the provider may read more than the request, so that no bound covers its prompt: results of tools that it
   * runs, or the conversation again for a summary. Absent = it may not.
   */
  extendsPrompt?: boolean
  /**
   * How often the provider may read the prompt again with results whose size nothing limits: pages that it fetches, and
   * what MCP servers return. Each time may fill the model's context. Absent = never.
   */
  toolReads?: number
  /** The service tier that it asks for; absent = the standard one. */
  tier?: ServiceTier
  /** Members that may not be sent, since nothing is reserved for them. Absent = none. */
  unlisted?: readonly Unlisted[]
  /** Whether the conversation holds reasoning that only the protocol that signed it can read. */
  signedThinking: boolean
  /** 0 (trivial) to 1 (hard): the estimated gain of a strong model over a weak one. */
  difficulty(): number
  /** The beginning and the end of the last user message that has text; '' without one. */
  lastText(): string
}

/** The web searches that a request asks for. */
export type WebSearches = {
  /** The most searches. */
  max: number
  /** Prompt tokens that they usually add: the provider reads the prompt again after each, with all results. */
  promptTokens: number
  /** Whether only native targets make them: others drop the tool of Responses. */
  nativeOnly: boolean
}

type Asked = { webSearches: WebSearches }

/** Tokens that the results of one search usually add to the prompt. */
const resultTokens = 5_000

/** Whether a request has audio or documents, whose size its cost depends on. */
export function hasMeasuredInput({ inputs }: Pick<Features, 'inputs'>): boolean {
  return inputs.audio || inputs.file
}

/** Whether a request says in which JSON its answer is to be. */
export function asksForFormat({ jsonSchema, jsonObject }: Features): boolean {
  return jsonSchema || jsonObject
}

/** The searches of a request, whose prompt is read again after each as `promptTokens`; null for none. */
export function webSearchesOf(max: number, promptTokens: number, nativeOnly: boolean): Asked | null {
  if (max === 0) return null
  return { webSearches: { max, promptTokens: promptTokens * max + (resultTokens * max * (max + 1)) / 2, nativeOnly } }
}

/** Hidden system text that providers add for tools, and providers or the gateway for a format of the answer. */
export const toolOverhead = 1_000
export const messageOverhead = 64

/** The features of a chat request whose JSON body has `bodyBytes` bytes. */
export function chatFeatures(body: ChatRequest, bodyBytes: number): Features {
  const found = new FoundFiles()
  const unlisted = readMembers(body, chatMemberTables, found)
  const textBytes = found.textBytes(bodyBytes)
  const { earlierSounds, reasoningCharacters } = earlierIn(body)
  // Providers count reasoning of earlier turns little or not at all.
  const promptTokensEstimate = Math.ceil(Math.max(0, textBytes - reasoningCharacters) / 4) + found.tokensEstimate
  const tools = (body.tools?.length ?? body.functions?.length ?? 0) > 0
  const outputs = body.modalities ?? []
  return {
    textTokensBound: textBytes + messageOverhead + (tools || hasFormat(body) ? toolOverhead : 0),
    media: earlierSounds > 0 ? { ...found.media, earlierSounds } : found.media,
    prompts: 1,
    promptTokensEstimate,
    maxPromptEstimate: promptTokensEstimate,
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? null,
    choices: body.n ?? 1,
    ...predictedIn(body),
    inputs: found.inputs,
    outputs: { image: outputs.includes('image'), audio: outputs.includes('audio') },
    voice: body.audio != null,
    tools,
    cache1h: () => asksFor1hCache(body),
    jsonSchema: body.response_format?.type === 'json_schema',
    jsonObject: body.response_format?.type === 'json_object',
    logprobs: body.logprobs === true,
    ...(body.web_search_options && { searchOptions: true }),
    ...((body as { disable_search?: unknown }).disable_search === true && { disablesSearch: true }),
    signedThinking: false,
    ...(unlisted.length > 0 && { unlisted }),
    // Only `auto` reads it. Not a getter: V8 creates and keeps a hidden class for each object literal with a getter.
    difficulty: () => difficultyOf(body),
    lastText: () => lastTextOf(body.messages),
  }
}

/** Of requests without cache marks. */
export const noMarks = () => false

/** The tokens of a prediction, whatever its form: JSON has at least as many bytes as the text in it. */
function predictedIn({ prediction }: ChatRequest & { prediction?: unknown }): Pick<Features, 'predictedTokens'> {
  return prediction == null ? {} : { predictedTokens: Buffer.byteLength(JSON.stringify(prediction)) }
}

function hasFormat({ response_format: format }: ChatRequest): boolean {
  return format !== undefined && format.type !== 'text'
}

/** The features of a legacy completion; the usual limit counts as an explicit one. */
export function completionFeatures(body: CompletionRequest, bodyBytes: number): Features {
  const prompts = promptsIn(body.prompt)
  const choices = Math.max(body.n ?? 1, body.best_of ?? 1) * prompts.length
  return {
    ...plain(bodyBytes, prompts),
    maxTokens: body.max_tokens ?? usualMaxTokens,
    choices,
    logprobs: body.logprobs != null,
    difficulty: () => 0.3,
  }
}

export function embeddingFeatures(body: EmbeddingRequest, bodyBytes: number): Features {
  return { ...plain(bodyBytes, promptsIn(body.input)), maxTokens: 0 }
}

type Prompt = string | number[]

function promptsIn(input: Prompt | string[] | number[][]): Prompt[] {
  if (typeof input === 'string') return [input]
  return typeof input[0] === 'number' ? [input as number[]] : (input as Prompt[])
}

function estimateOf(prompt: Prompt): number {
  return typeof prompt === 'string' ? Math.ceil(Buffer.byteLength(prompt) / 4) : prompt.length
}

/** Features without media; each prompt may become a separate message. */
function plain(bodyBytes: number, prompts: readonly Prompt[]): Features {
  return {
    textTokensBound: bodyBytes + messageOverhead * prompts.length,
    prompts: prompts.length,
    maxPromptEstimate: prompts.reduce((max, prompt) => Math.max(max, estimateOf(prompt)), 0),
    media: noMedia,
    promptTokensEstimate: Math.ceil(bodyBytes / 4),
    maxTokens: null,
    choices: 1,
    inputs: { image: false, audio: false, file: false },
    outputs: { image: false, audio: false },
    voice: false,
    tools: false,
    cache1h: noMarks,
    jsonSchema: false,
    jsonObject: false,
    logprobs: false,
    signedThinking: false,
    difficulty: () => 0,
    lastText: () => '',
  }
}

function lengthOf(text: string | null | undefined): number {
  return text?.length ?? 0
}

/** Earlier audio answers, and the characters of reasoning details in earlier answers. */
function earlierIn({ messages }: ChatRequest): { earlierSounds: number; reasoningCharacters: number } {
  const earlier = { earlierSounds: 0, reasoningCharacters: 0 }
  for (const message of messages) {
    if (message.role !== 'assistant') continue
    if (message.audio) earlier.earlierSounds++
    for (const { text, summary, data, signature } of message.reasoning_details ?? [])
      earlier.reasoningCharacters += lengthOf(text) + lengthOf(summary) + lengthOf(data) + lengthOf(signature)
  }
  return earlier
}

/** Images, audio and documents of a prompt. Null = not measured yet, or size unknown. */
export type PromptMedia = {
  images: number
  /** Total duration of the audio, in milliseconds. */
  soundMs: number | null
  /** Earlier audio answers, which the provider stores and rereads. */
  earlierSounds: number
  documents: DocumentSize | null
}

export const noMedia: PromptMedia = { images: 0, soundMs: 0, earlierSounds: 0, documents: { pages: 0, textBytes: 0 } }

/** The files found in a request, by their kinds. */
export class FoundFiles {
  readonly #counts: Record<FileKind, number> = { image: 0, sound: 0, document: 0 }
  readonly #characters: Record<FileKind, number> = { image: 0, sound: 0, document: 0 }
  /** Images of earlier work, which a model that takes none ignores. */
  #records = 0

  file({ file, record }: FileRule, characters: number): void {
    this.#counts[file]++
    this.#characters[file] += characters
    if (record) this.#records++
  }

  /** The size of a body without its files. */
  textBytes(bodyBytes: number): number {
    const { image, sound, document } = this.#characters
    return Math.max(0, bodyBytes - image - sound - document)
  }

  /** The estimated tokens of all files: of sounds and documents by their characters in base64. */
  get tokensEstimate(): number {
    const { sound, document } = this.#characters
    return this.#counts.image * imageTokens.inputEstimate + Math.ceil(sound / 256) + Math.ceil(document / 32)
  }

  /** Before sounds and documents are measured. */
  get media(): PromptMedia {
    const { image, sound, document } = this.#counts
    if (image + sound + document === 0) return noMedia
    return {
      images: image,
      soundMs: sound > 0 ? null : noMedia.soundMs,
      earlierSounds: 0,
      documents: document > 0 ? null : noMedia.documents,
    }
  }

  /** What a model must be able to read. */
  get inputs(): { image: boolean; audio: boolean; file: boolean } {
    const { image, sound, document } = this.#counts
    return { image: image > this.#records, audio: sound > 0, file: document > 0 }
  }
}

/** A requirement of the request that a model does not meet. */
export type UnmetRequirement = {
  code: 'unsupported_capability' | 'context_length_exceeded' | 'missing_field'
  why: string
  param: string
  /** The class by which clients of Anthropic's API know what to leave out. */
  rejected?: 'image_block' | 'document_block' | 'structured_outputs_unsupported' | 'prompt_too_long'
}

/** The first requirement that a model which the request names does not meet; null when it meets all. */
export function unmetRequirement(model: ModelRow, features: Features): UnmetRequirement | null {
  return unmetCapability(model, features, true) ?? unmetContext(model, features)
}

/**
 * The first capability that a model lacks; null when it has all. It depends on what `capabilitiesOf` distinguishes.
 * `emulatesFormat`: a format of answers that the model lacks is asked for in another way
 * (`shared/providers/profile/emulated-format.ts`).
 */
export function unmetCapability(model: ModelRow, features: Features, emulatesFormat = false): UnmetRequirement | null {
  const unsupported = (why: string, param: string, rejected?: UnmetRequirement['rejected']): UnmetRequirement => ({
    code: 'unsupported_capability',
    why,
    param,
    ...(rejected && { rejected }),
  })
  const takes = model.input_modalities
  const gives = model.output_modalities
  const supports = model.supported_parameters
  if (features.inputs.image && !takes.includes('image'))
    return unsupported('takes no images', 'messages', 'image_block')
  if (features.inputs.audio && !takes.includes('audio')) return unsupported('takes no audio', 'messages')
  if (features.inputs.file && !takes.includes('file'))
    return unsupported('takes no files', 'messages', 'document_block')
  if (features.outputs.image && !gives.includes('image')) return unsupported('gives no images', 'modalities')
  if (features.outputs.audio && !gives.includes('audio')) return unsupported('gives no audio', 'modalities')
  if (features.outputs.audio && !features.voice)
    return { code: 'missing_field', why: 'needs `audio` with a voice and a format', param: 'audio' }
  if (features.tools && !supports.includes('tools')) return unsupported('takes no tools', 'tools')
  const isEmulated = emulatesFormat && !features.outputs.image && !features.outputs.audio
  if (features.jsonSchema && !isEmulated && !supports.includes('structured_outputs'))
    return unsupported('has no structured output by JSON schema', 'response_format', 'structured_outputs_unsupported')
  if (features.jsonObject && !isEmulated && !supports.includes('response_format'))
    return unsupported('has no JSON mode', 'response_format')
  if (features.logprobs && model.type === 'chat' && !model.endpoint && !supports.includes('logprobs'))
    return unsupported('gives no logprobs', 'logprobs')
  if (features.searchOptions && !supports.includes('web_search_options'))
    return unsupported('does not search the web in chat completions', 'web_search_options')
  return null
}

/** The capabilities that a request needs, as bits: requests with equal bits lack the same of any model. */
export function capabilitiesOf(features: Features): number {
  const { inputs, outputs, voice, tools, jsonSchema, jsonObject, logprobs, searchOptions } = features
  return (
    (inputs.image ? 1 : 0) |
    (inputs.audio ? 2 : 0) |
    (inputs.file ? 4 : 0) |
    (outputs.image ? 8 : 0) |
    (outputs.audio ? 16 : 0) |
    (voice ? 32 : 0) |
    (tools ? 64 : 0) |
    (jsonSchema ? 128 : 0) |
    (jsonObject ? 256 : 0) |
    (logprobs ? 512 : 0) |
    (searchOptions ? 1024 : 0)
  )
}

/** The context that a prompt exceeds; null when it fits. */
function unmetContext(model: ModelRow, features: Features): UnmetRequirement | null {
  if (model.context_length !== null && features.maxPromptEstimate > model.context_length) {
    return {
      code: 'context_length_exceeded',
      why: `takes ${model.context_length} tokens, and this input has about ${features.maxPromptEstimate}`,
      param: model.type === 'embeddings' ? 'input' : 'messages',
      rejected: 'prompt_too_long',
    }
  }
  return null
}

/** The same for a model chosen by the router: its output limit must also cover the requested `max_tokens`. */
export function unmetAutoRequirement(model: ModelRow, features: Features): UnmetRequirement | null {
  return unmetCapability(model, features) ?? unmetLimit(model, features)
}

/** The first limit of a model chosen by the router that a request exceeds: its context or its output. */
export function unmetLimit(model: ModelRow, features: Features): UnmetRequirement | null {
  const missing = unmetContext(model, features)
  const { maxTokens } = features
  if (missing || maxTokens === null || model.max_output_tokens === null || maxTokens <= model.max_output_tokens)
    return missing
  return {
    code: 'unsupported_capability',
    why: `gives at most ${model.max_output_tokens} tokens`,
    param: 'max_tokens',
  }
}
