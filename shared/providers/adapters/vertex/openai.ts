import type { Protocol } from '../../contract.ts'
import { fittedChat } from '../../profile/fit-chat.ts'
import { imageUrls } from '../../toolkit/image-urls.ts'
import { chat } from '../openai/chat.ts'
import { failure } from '../openai/failure.ts'
import { partnerFailure } from './failure.ts'

/**
 * Open models and Grok at Google's Vertex AI: chat completions at `endpoints/openapi` of a project and location, which the base URL
 * names; the model is `publisher/name`. Sources: docs.cloud.google.com/vertex-ai/generative-ai/docs/maas/call-open-model-apis, and
 * `google-vertex-maas-provider.ts` of vercel/ai.
 */
export const vertexOpenAi: Protocol = {
  direct: { chat: fittedChat({ ...chat, remoteMedia: imageUrls }) },
  failure: partnerFailure(failure),
}
