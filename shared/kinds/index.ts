import { type AvatarInput, avatar } from './avatar.ts'
import { type ChatChunk, type ChatCompletion, type ChatRequest, chatRequest } from './chat.ts'
import { type Completion, type CompletionRequest, completionRequest } from './completion.ts'
import { type EmbeddingRequest, type Embeddings, embeddingRequest } from './embedding.ts'
import { type FaceSwapInput, faceSwap } from './face-swap.ts'
import { type ImageInput, type ImageOutput, image } from './image.ts'
import { type LipsyncInput, lipsync } from './lipsync.ts'
import type { MediaOutput } from './media.ts'
import { type MeshInput, type MeshRole, mesh } from './mesh.ts'
import { type MusicInput, music } from './music.ts'
import { type SfxInput, sfx } from './sfx.ts'
import type { SoundOutput } from './sound.ts'
import { type SpeechInput, speech } from './speech.ts'
import { type TranscriptionInput, type TranscriptionOutput, transcription } from './transcription.ts'
import { type VideoInput, video } from './video.ts'

/** Kinds answered while the caller waits: what each takes, gives whole, and gives in pieces. */
export type DirectKinds = {
  chat: { request: ChatRequest; answer: ChatCompletion; chunk: ChatChunk }
  completion: { request: CompletionRequest; answer: Completion; chunk: Completion }
  embedding: { request: EmbeddingRequest; answer: Embeddings; chunk: never }
}
export type DirectKind = keyof DirectKinds

/** The schema that validates each direct kind's body; the OpenAPI document is made from the same ones. */
export const directKinds = {
  chat: chatRequest.meta({ id: 'CreateChatCompletionRequest' }),
  completion: completionRequest.meta({ id: 'CreateCompletionRequest' }),
  embedding: embeddingRequest.meta({ id: 'CreateEmbeddingRequest' }),
}

/** Kinds whose work is slow and goes through the queue: what an adapter is asked for, and the files it gives. */
export type QueuedKinds = {
  video: { input: VideoInput; output: MediaOutput<'video'> }
  lipsync: { input: LipsyncInput; output: MediaOutput<'video'> }
  face_swap: { input: FaceSwapInput; output: MediaOutput<'video'> }
  avatar: { input: AvatarInput; output: MediaOutput<'video'> }
  mesh: { input: MeshInput; output: MediaOutput<MeshRole> }
}
export type QueuedKind = keyof QueuedKinds

/** One row per queued kind; its routes, prices and jobs are made from it. */
export const queuedKinds = { video, lipsync, face_swap: faceSwap, avatar, mesh }

/** Kinds of media that are made while the caller waits. */
export type InstantKinds = {
  image: { input: ImageInput; output: ImageOutput }
  speech: { input: SpeechInput; output: SoundOutput }
  transcription: { input: TranscriptionInput; output: TranscriptionOutput }
  music: { input: MusicInput; output: SoundOutput }
  sfx: { input: SfxInput; output: SoundOutput }
}
export type InstantKind = keyof InstantKinds

/** One row per kind of media that is waited for. */
export const instantKinds = { image, speech, transcription, music, sfx }

/** What a provider may be asked to work on, be it waited for or not. */
export type WorkKinds = QueuedKinds & InstantKinds
export type WorkKind = keyof WorkKinds
