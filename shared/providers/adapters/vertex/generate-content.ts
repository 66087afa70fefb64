import type { Call, DirectAdapter } from '../../contract.ts'
import {
  contentRequest,
  editedBody,
  generateContent as geminiGenerateContent,
  withWholeCalls,
} from '../gemini/generate-content.ts'
import { atVertex, modelsPath } from './paths.ts'

type GenerateCall = Call<'generate_content'>

/** What `countTokens` takes at Vertex AI (`countTokensParametersToVertex` of `@google/genai`). */
const countedMembers = new Set(['contents', 'systemInstruction', 'tools', 'generationConfig'])

/** `generateContent` for clients of the same dialect, at Vertex AI. */
export const generateContent: DirectAdapter<'generate_content'> = {
  ...geminiGenerateContent,
  request(call) {
    const placed = withRoles(call)
    return atVertex(contentRequest(placed.body.stream ? placed : withWholeCalls(placed)))
  },
  countTokens(call) {
    geminiGenerateContent.countTokens!(call) // Refuses what cannot be sent.
    const { body } = editedBody({ ...withRoles(call), raw: null, maxTokens: null })
    const counted = Object.entries(JSON.parse(String(body))).filter(([name]) => countedMembers.has(name))
    return {
      method: 'POST',
      path: `${modelsPath}${call.target.deployment.upstream_model}:countTokens`,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(Object.fromEntries(counted)),
    }
  },
}

/**
 * Contents without a role are the user's in the Gemini API; Vertex AI refuses them ("Please use a valid role: user, model",
 * BerriAI/litellm#32731).
 */
function withRoles(call: GenerateCall): GenerateCall {
  const { body } = call
  if (body.contents.every(({ role }) => role)) return call
  const contents = body.contents.map(content => (content.role ? content : { ...content, role: 'user' as const }))
  return { ...call, raw: null, body: { ...body, contents } }
}
