import type { Protocol } from '../../contract.ts'
import { fittedChat } from '../../profile/fit-chat.ts'
import { imageUrls } from '../../toolkit/image-urls.ts'
import { withOneCall } from '../../toolkit/one-call.ts'
import { withReasoningState } from '../../toolkit/reasoning-state.ts'
import { chatAnswer } from '../gemini/answer.ts'
import { failure } from '../gemini/failure.ts'
import { image } from '../gemini/image.ts'
import { chatRequest } from '../gemini/request.ts'
import { chatStream } from '../gemini/stream.ts'
import { embedding } from './embedding.ts'
import { generateContent } from './generate-content.ts'
import { atVertex, connectionAtVertex } from './paths.ts'
import { speech } from './speech.ts'
import { video } from './video.ts'

/**
 * Gemini at Google's Vertex AI: the bodies of the Gemini API, at `publishers/google/models/…` of a project and location, which the
 * base URL names. Embeddings and videos have forms of their own. Source of the paths: `@google/genai` with `vertexai: true`, whose
 * version of the API is `v1beta1`.
 */
export const vertex: Protocol = {
  direct: {
    chat: fittedChat(
      withReasoningState(
        withOneCall({
          native: false,
          request: call => atVertex(chatRequest(call)),
          remoteMedia: imageUrls,
          answer: chatAnswer,
          stream: chatStream,
        }),
      ),
    ),
    generate_content: generateContent,
    embedding,
  },
  queued: { video },
  synchronous: {
    image: { ...image, make: (call, connection) => image.make(call, connectionAtVertex(connection)) },
    speech,
  },
  failure,
}
