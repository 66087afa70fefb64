import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import { chatFeatures, completionFeatures, embeddingFeatures, type Features } from './features.ts'
import { messagesFeatures } from './messages-features.ts'
import { responsesFeatures } from './responses-features.ts'

const readers: { [K in DirectKind]: (body: DirectKinds[K]['request'], bodyBytes: number) => Features } = {
  chat: chatFeatures,
  completion: completionFeatures,
  embedding: embeddingFeatures,
  messages: messagesFeatures,
  responses: responsesFeatures,
}

/** The features of a request of any kind whose JSON body has `bodyBytes` bytes. */
export function featuresOf<K extends DirectKind>(
  kind: K,
  body: DirectKinds[K]['request'],
  bodyBytes: number,
): Features {
  return readers[kind](body, bodyBytes)
}
