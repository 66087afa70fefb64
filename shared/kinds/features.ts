import type { DocumentSize } from '../io/pdf.ts'
import type { ChatRequest } from './chat.ts'
import type { CompletionRequest } from './completion.ts'
import { difficultyOf } from './difficulty.ts'
import type { EmbeddingRequest } from './embedding.ts'

/** Pictures, sound and documents of a prompt. Null = not measured yet, or its size cannot be told. */
export type PromptMedia = {
  images: number
  /** Playing time of all its sound, in milliseconds. */
  soundMs: number | null
  /** Earlier answers in sound that the provider keeps and reads again. */
  earlierSounds: number
  documents: DocumentSize | null
}

export const noMedia: PromptMedia = { images: 0, soundMs: 0, earlierSounds: 0, documents: { pages: 0, textBytes: 0 } }

/** What a request brings and asks for, as routing and reservation need it. */
export type Features = {
  /** Upper bound of the tokens of the prompt's text: no tokenizer makes more tokens than there are bytes. */
  textTokensBound: number
  /** What the prompt holds beside text. What it can cost depends on the target (see `shared/chat/prompt-bound.ts`). */
  media: PromptMedia
  /** How many prompts the text is divided into: each may be as long as the model takes. */
  prompts: number
  /** What all of them will probably have. */
  promptTokensEstimate: number
  /** What the longest of them will probably have. */
  longestPromptEstimate: number
  /** The output limit the caller named, per choice; null = none. */
  maxTokens: number | null
  choices: number
  inputs: { image: boolean; audio: boolean; file: boolean }
  outputs: { image: boolean; audio: boolean }
  /** Whether it says in which voice and format sound is wanted. */
  voice: boolean
  tools: boolean
  jsonSchema: boolean
  jsonObject: boolean
  logprobs: boolean
  /** 0 (trivial) to 1 (hard): how much a strong model is likely to gain over a weak one. */
  difficulty(): number
}

const estimatePerImage = 1_000
/** Hidden system text that providers add for tools. */
const toolOverhead = 1_000
const messageOverhead = 64

type Media = {
  images: number
  imageCharacters: number
  audioCharacters: number
  fileCharacters: number
  audio: boolean
  earlierSounds: number
  file: boolean
}

/** The features of a chat request whose JSON body has `bodyBytes` bytes. */
export function chatFeatures(body: ChatRequest, bodyBytes: number): Features {
  const media = mediaOf(body)
  const textBytes = Math.max(0, bodyBytes - media.imageCharacters - media.audioCharacters - media.fileCharacters)
  const mediaEstimate =
    media.images * estimatePerImage + Math.ceil(media.audioCharacters / 256) + Math.ceil(media.fileCharacters / 32)
  const promptTokensEstimate = Math.ceil(textBytes / 4) + mediaEstimate
  const tools = (body.tools?.length ?? body.functions?.length ?? 0) > 0
  const outputs = body.modalities ?? []
  return {
    textTokensBound: textBytes + messageOverhead + (tools ? toolOverhead : 0),
    media: {
      images: media.images,
      soundMs: media.audio ? null : 0,
      earlierSounds: media.earlierSounds,
      documents: media.file ? null : noMedia.documents,
    },
    prompts: 1,
    promptTokensEstimate,
    longestPromptEstimate: promptTokensEstimate,
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? null,
    choices: body.n ?? 1,
    inputs: { image: media.images > 0, audio: media.audio, file: media.file },
    outputs: { image: outputs.includes('image'), audio: outputs.includes('audio') },
    voice: body.audio != null,
    tools,
    jsonSchema: body.response_format?.type === 'json_schema',
    jsonObject: body.response_format?.type === 'json_object',
    logprobs: body.logprobs === true,
    // Only `auto` asks. No getter: V8 makes and keeps a hidden class for each object literal that has one.
    difficulty: () => difficultyOf(body),
  }
}

/** The features of a legacy completion; OpenAI's default of 16 tokens counts as asked for. */
export function completionFeatures(body: CompletionRequest, bodyBytes: number): Features {
  const prompts = promptsIn(body.prompt)
  const choices = Math.max(body.n ?? 1, body.best_of ?? 1) * prompts.length
  return {
    ...plain(bodyBytes, prompts),
    maxTokens: body.max_tokens ?? 16,
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

/** Each of the prompts may become a message of its own. */
function plain(bodyBytes: number, prompts: readonly Prompt[]): Features {
  return {
    textTokensBound: bodyBytes + messageOverhead * prompts.length,
    prompts: prompts.length,
    longestPromptEstimate: prompts.reduce((longest, prompt) => Math.max(longest, estimateOf(prompt)), 0),
    media: noMedia,
    promptTokensEstimate: Math.ceil(bodyBytes / 4),
    maxTokens: null,
    choices: 1,
    inputs: { image: false, audio: false, file: false },
    outputs: { image: false, audio: false },
    voice: false,
    tools: false,
    jsonSchema: false,
    jsonObject: false,
    logprobs: false,
    difficulty: () => 0,
  }
}

function mediaOf(body: ChatRequest): Media {
  const media: Media = {
    images: 0,
    imageCharacters: 0,
    audioCharacters: 0,
    fileCharacters: 0,
    audio: false,
    earlierSounds: 0,
    file: false,
  }
  for (const message of body.messages) {
    if (message.role === 'assistant' && message.audio) media.earlierSounds++
    if (message.role !== 'user' || typeof message.content === 'string') continue
    for (const part of message.content) {
      if (part.type === 'image_url') {
        media.images++
        if (part.image_url.url.startsWith('data:')) media.imageCharacters += part.image_url.url.length
      } else if (part.type === 'input_audio') {
        media.audio = true
        media.audioCharacters += part.input_audio.data.length
      } else if (part.type === 'file') {
        media.file = true
        media.fileCharacters += part.file.file_data?.length ?? 0
      }
    }
  }
  return media
}
