import { type AvatarInput, avatar } from './avatar.ts'
import { type ChatChunk, type ChatCompletion, type ChatRequest, chatRequest } from './chat.ts'
import { type Completion, type CompletionRequest, completionRequest } from './completion.ts'
import { type EmbeddingRequest, type Embeddings, embeddingRequest } from './embedding.ts'
import { type FaceSwapInput, faceSwap } from './face-swap.ts'
import { type GeminiAnswer, type GenerateContentRequest, generateContentRequest } from './generate-content.ts'
import { type ImageInput, type ImageOutput, image } from './image.ts'
import { type LipsyncInput, lipsync } from './lipsync.ts'
import type { MediaOutput } from './media.ts'
import { type MeshInput, type MeshRole, mesh } from './mesh.ts'
import { type Message, type MessageEvent, type MessagesRequest, messagesRequest } from './messages.ts'
import { type ModerationInput, type ModerationOutput, moderation } from './moderation.ts'
import { type MusicInput, music } from './music.ts'
import { type OcrInput, type OcrOutput, ocr } from './ocr.ts'
import { type RerankInput, type RerankOutput, rerank } from './rerank.ts'
import { type ResponsesRequest, responsesRequest } from './responses.ts'
import type { ResponsesEvent, ResponsesObject } from './responses-answer.ts'
import { type SfxInput, sfx } from './sfx.ts'
import type { SoundOutput } from './sound.ts'
import { type SpeechInput, speech } from './speech.ts'
import { type TranscriptionInput, type TranscriptionOutput, transcription } from './transcription.ts'
import { type VideoInput, video } from './video.ts'

/** Kinds of text: the request, the answer and the stream chunk of each. Adapters call them directly. */
export type DirectKinds = {
  chat: { request: ChatRequest; answer: ChatCompletion; chunk: ChatChunk }
  completion: { request: CompletionRequest; answer: Completion; chunk: Completion }
  embedding: { request: EmbeddingRequest; answer: Embeddings; chunk: never }
  messages: { request: MessagesRequest; answer: Message; chunk: MessageEvent }
  responses: { request: ResponsesRequest; answer: ResponsesObject; chunk: ResponsesEvent }
  generate_content: { request: GenerateContentRequest; answer: GeminiAnswer; chunk: GeminiAnswer }
}
export type DirectKind = keyof DirectKinds
/** The direct kinds whose answers have choices or vectors, in the format of OpenAI's older endpoints. */
export type OpenAiKind = Exclude<DirectKind, 'messages' | 'responses' | 'generate_content'>

/** The schema that validates each direct kind's body; also the source of the OpenAPI document. */
export const directKinds = {
  chat: chatRequest.meta({ id: 'CreateChatCompletionRequest' }),
  completion: completionRequest.meta({ id: 'CreateCompletionRequest' }),
  embedding: embeddingRequest.meta({ id: 'CreateEmbeddingRequest' }),
  messages: messagesRequest.meta({ id: 'CreateMessageRequest' }),
  responses: responsesRequest.meta({ id: 'CreateResponseRequest' }),
  generate_content: generateContentRequest.meta({ id: 'GenerateContentRequest' }),
}

/** Asynchronous kinds, which run as queued jobs: adapter input and output files. */
export type QueuedKinds = {
  video: { input: VideoInput; output: MediaOutput<'video'> }
  lipsync: { input: LipsyncInput; output: MediaOutput<'video'> }
  face_swap: { input: FaceSwapInput; output: MediaOutput<'video'> }
  avatar: { input: AvatarInput; output: MediaOutput<'video'> }
  mesh: { input: MeshInput; output: MediaOutput<MeshRole> }
}
export type QueuedKind = keyof QueuedKinds

/** One row per queued kind; routes, prices and jobs are derived from it. */
export const queuedKinds = { video, lipsync, face_swap: faceSwap, avatar, mesh }

/** Synchronous kinds that are not conversations: media, rankings, moderations, texts of documents. */
type SyncKinds = {
  image: { input: ImageInput; output: ImageOutput }
  speech: { input: SpeechInput; output: SoundOutput }
  transcription: { input: TranscriptionInput; output: TranscriptionOutput }
  music: { input: MusicInput; output: SoundOutput }
  sfx: { input: SfxInput; output: SoundOutput }
  rerank: { input: RerankInput; output: RerankOutput }
  moderation: { input: ModerationInput; output: ModerationOutput }
  ocr: { input: OcrInput; output: OcrOutput }
}
export type SyncKind = keyof SyncKinds

/** One row per such kind. */
export const syncKinds = { image, speech, transcription, music, sfx, rerank, moderation, ocr }

/** All media work of providers, synchronous or queued. */
export type WorkKinds = QueuedKinds & SyncKinds
export type WorkKind = keyof WorkKinds
