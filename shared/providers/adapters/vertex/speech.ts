import { byGeneration, speechAdapter } from '../gemini/speech.ts'
import { connectionAtVertex } from './paths.ts'

/**
 * Gemini's voices at Vertex AI, which has no interactions: the text is spoken verbatim, the style is metadata of its part
 * (docs.cloud.google.com/gemini-enterprise-agent-platform/models/text-to-speech/overview, `SpeechMetadata` of `@google/genai`).
 */
export const speech = speechAdapter((call, connection) => {
  const { text, instructions: style } = call.input
  return byGeneration(call, connectionAtVertex(connection), {
    text,
    ...(style !== null && { speechMetadata: { style } }),
  })
})
