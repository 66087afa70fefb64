import type { ModelRow } from '../catalog/schema.ts'
import type { Features } from '../kinds/features.ts'

/** What keeps a request from a model: something that the model does not have, or the request. */
export type Unmet = {
  code: 'unsupported_capability' | 'context_length_exceeded' | 'missing_field'
  why: string
  param: string
}

/** The first thing that keeps a request from a model. */
export function unmet(model: ModelRow, features: Features): Unmet | null {
  const lacks = (why: string, param: string): Unmet => ({ code: 'unsupported_capability', why, param })
  const takes = model.input_modalities
  const gives = model.output_modalities
  const supports = model.supported_parameters
  if (features.inputs.image && !takes.includes('image')) return lacks('takes no images', 'messages')
  if (features.inputs.audio && !takes.includes('audio')) return lacks('takes no audio', 'messages')
  if (features.inputs.file && !takes.includes('file')) return lacks('takes no files', 'messages')
  if (features.outputs.image && !gives.includes('image')) return lacks('gives no images', 'modalities')
  if (features.outputs.audio && !gives.includes('audio')) return lacks('gives no audio', 'modalities')
  if (features.outputs.audio && !features.voice)
    return { code: 'missing_field', why: 'needs `audio` with a voice and a format', param: 'audio' }
  if (features.tools && !supports.includes('tools')) return lacks('takes no tools', 'tools')
  if (features.jsonSchema && !supports.includes('structured_outputs'))
    return lacks('has no structured output by JSON schema', 'response_format')
  if (features.jsonObject && !supports.includes('response_format')) return lacks('has no JSON mode', 'response_format')
  if (features.logprobs && model.type === 'chat' && !model.endpoint && !supports.includes('logprobs'))
    return lacks('gives no logprobs', 'logprobs')
  if (model.context_length !== null && features.longestPromptEstimate > model.context_length) {
    return {
      code: 'context_length_exceeded',
      why: `takes ${model.context_length} tokens, and this input has about ${features.longestPromptEstimate}`,
      param: model.type === 'embeddings' ? 'input' : 'messages',
    }
  }
  return null
}

/** The same for a model that we choose ourselves: it must also have room for the answer that was asked for. */
export function unmetByChoice(model: ModelRow, features: Features): Unmet | null {
  const lack = unmet(model, features)
  const { maxTokens } = features
  if (lack || maxTokens === null || model.max_output_tokens === null || maxTokens <= model.max_output_tokens)
    return lack
  return {
    code: 'unsupported_capability',
    why: `gives at most ${model.max_output_tokens} tokens`,
    param: 'max_tokens',
  }
}
