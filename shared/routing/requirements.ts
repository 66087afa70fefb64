import { GatewayError } from '../base/errors.ts'
import type { ModelRow } from '../catalog/schema.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Features } from './features.ts'
import { requestFormats } from './request-formats.ts'

/** A requirement of the request that a model does not meet. */
export type UnmetRequirement = {
  code: 'unsupported_capability' | 'context_length_exceeded' | 'missing_field'
  why: string
  param: string
  /** The class by which clients of Anthropic's API know what to leave out. */
  rejected?: 'image_block' | 'document_block' | 'structured_outputs_unsupported' | 'prompt_too_long'
}

/** The 400 for a model that does not meet a requirement, in the words that the clients of its format look for. */
export function unmetError(
  { id, context_length }: ModelRow,
  { code, why, param, rejected }: UnmetRequirement,
  kind: DirectKind,
  { maxPromptEstimate }: Features,
): GatewayError {
  const { words } = requestFormats[kind]
  if (rejected === 'prompt_too_long') {
    const counts = { input: maxPromptEstimate, output: null, limit: context_length! }
    return new GatewayError(code, words.overflow(counts), { param })
  }
  return new GatewayError(code, words.unmet(`\`${id}\` ${why}`, rejected), { param })
}

/** The first requirement that a model does not meet; null when it meets all. */
export function unmetRequirement(model: ModelRow, features: Features): UnmetRequirement | null {
  return unmetCapability(model, features) ?? unmetContext(model, features)
}

/** The first capability that a model lacks; null when it has all. It depends on what `capabilitiesOf` distinguishes. */
export function unmetCapability(model: ModelRow, features: Features): UnmetRequirement | null {
  const unsupported = (why: string, param: string, rejected?: UnmetRequirement['rejected']): UnmetRequirement => ({
    code: 'unsupported_capability',
    why,
    param,
    ...(rejected && { rejected }),
  })
  const takes = model.input_modalities
  const gives = model.output_modalities
  const supports = model.supported_parameters
  if (features.inputs.image && !takes.includes('image'))
    return unsupported('takes no images', 'messages', 'image_block')
  if (features.inputs.audio && !takes.includes('audio')) return unsupported('takes no audio', 'messages')
  if (features.inputs.file && !takes.includes('file'))
    return unsupported('takes no files', 'messages', 'document_block')
  if (features.outputs.image && !gives.includes('image')) return unsupported('gives no images', 'modalities')
  if (features.outputs.audio && !gives.includes('audio')) return unsupported('gives no audio', 'modalities')
  if (features.outputs.audio && !features.voice)
    return { code: 'missing_field', why: 'needs `audio` with a voice and a format', param: 'audio' }
  if (features.tools && !supports.includes('tools')) return unsupported('takes no tools', 'tools')
  if (features.jsonSchema && !supports.includes('structured_outputs'))
    return unsupported('has no structured output by JSON schema', 'response_format', 'structured_outputs_unsupported')
  if (features.jsonObject && !supports.includes('response_format'))
    return unsupported('has no JSON mode', 'response_format')
  if (features.logprobs && model.type === 'chat' && !model.endpoint && !supports.includes('logprobs'))
    return unsupported('gives no logprobs', 'logprobs')
  return null
}

/** The capabilities that a request needs, as bits: requests with equal bits lack the same of any model. */
export function capabilitiesOf({ inputs, outputs, voice, tools, jsonSchema, jsonObject, logprobs }: Features): number {
  return (
    (inputs.image ? 1 : 0) |
    (inputs.audio ? 2 : 0) |
    (inputs.file ? 4 : 0) |
    (outputs.image ? 8 : 0) |
    (outputs.audio ? 16 : 0) |
    (voice ? 32 : 0) |
    (tools ? 64 : 0) |
    (jsonSchema ? 128 : 0) |
    (jsonObject ? 256 : 0) |
    (logprobs ? 512 : 0)
  )
}

/** The context that a prompt exceeds; null when it fits. */
function unmetContext(model: ModelRow, features: Features): UnmetRequirement | null {
  if (model.context_length !== null && features.maxPromptEstimate > model.context_length) {
    return {
      code: 'context_length_exceeded',
      why: `takes ${model.context_length} tokens, and this input has about ${features.maxPromptEstimate}`,
      param: model.type === 'embeddings' ? 'input' : 'messages',
      rejected: 'prompt_too_long',
    }
  }
  return null
}

/** The same for a model chosen by the router: its output limit must also cover the requested `max_tokens`. */
export function unmetAutoRequirement(model: ModelRow, features: Features): UnmetRequirement | null {
  return unmetCapability(model, features) ?? unmetLimit(model, features)
}

/** The first limit of a model chosen by the router that a request exceeds: its context or its output. */
export function unmetLimit(model: ModelRow, features: Features): UnmetRequirement | null {
  const missing = unmetContext(model, features)
  const { maxTokens } = features
  if (missing || maxTokens === null || model.max_output_tokens === null || maxTokens <= model.max_output_tokens)
    return missing
  return {
    code: 'unsupported_capability',
    why: `gives at most ${model.max_output_tokens} tokens`,
    param: 'max_tokens',
  }
}
