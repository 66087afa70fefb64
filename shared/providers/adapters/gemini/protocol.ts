import type { Protocol } from '../../contract.ts'
import { fittedChat } from '../../profile/fit-chat.ts'
import { imageUrls } from '../../toolkit/image-urls.ts'
import { withOneCall } from '../../toolkit/one-call.ts'
import { withReasoningState } from '../../toolkit/reasoning-state.ts'
import { chatAnswer } from './answer.ts'
import { embedding } from './embedding.ts'
import { failure } from './failure.ts'
import { generateContent } from './generate-content.ts'
import { image } from './image.ts'
import { live } from './live.ts'
import { music } from './music.ts'
import { chatRequest } from './request.ts'
import { speech } from './speech.ts'
import { chatStream } from './stream.ts'
import { video } from './video.ts'

/** Google's Gemini API (`generateContent`, `streamGenerateContent`, `batchEmbedContents`, `predictLongRunning`, `interactions`, `BidiGenerateContent`). */
export const gemini: Protocol = {
  direct: {
    chat: fittedChat(
      withReasoningState(
        withOneCall({
          native: false,
          request: chatRequest,
          // It takes bytes, not URLs.
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
  synchronous: { image, speech, music },
  realtime: ({ traits }) => (traits?.dialect === 'gemini' ? live : null),
  // https://ai.google.dev/gemini-api/docs/priority-inference
  tierHeader: 'x-gemini-service-tier',
  credentialCheck: () => ({ path: '/v1beta/models?pageSize=1' }),
  failure,
}
