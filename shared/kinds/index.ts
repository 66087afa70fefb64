import { type ChatChunk, type ChatCompletion, type ChatRequest, chatRequest } from './chat.ts'
import { type Completion, type CompletionRequest, completionRequest } from './completion.ts'
import { type EmbeddingRequest, type Embeddings, embeddingRequest } from './embedding.ts'

/** Kinds answered while the caller waits: what each takes, gives whole, and gives in pieces. */
export type DirectKinds = {
  chat: { request: ChatRequest; answer: ChatCompletion; chunk: ChatChunk }
  completion: { request: CompletionRequest; answer: Completion; chunk: Completion }
  embedding: { request: EmbeddingRequest; answer: Embeddings; chunk: never }
}
export type DirectKind = keyof DirectKinds

/** The schema that validates each direct kind's body; the OpenAPI document is made from the same ones. */
export const directKinds = { chat: chatRequest, completion: completionRequest, embedding: embeddingRequest }
