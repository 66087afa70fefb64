import { GatewayError } from '../../../base/errors.ts'
import { isObject } from '../../../base/is-object.ts'
import { type Effort, effortOfBudget } from '../../../catalog/chat-profile.ts'
import type { ChatRequest } from '../../../kinds/chat.ts'
import type { GenerateContentRequest, GenerationConfig } from '../../../kinds/generate-content.ts'
import { asksFor, generateContentMembers } from '../../../kinds/request-members.ts'
import type { Target } from '../../contract.ts'
import { isStrict } from '../is-strict.ts'
import { conversation } from './conversation.ts'
import { jsonSchemaOf } from './schema.ts'
import { chatTools } from './tools.ts'

/** The most stop sequences that the chat format has; later ones are left out. */
const maxStops = 4

/** What has a counterpart in the chat format; all else of `generationConfig` is left out and named. */
const translated: ReadonlySet<string> = new Set([
  ...['temperature', 'topP', 'topK', 'candidateCount', 'maxOutputTokens', 'stopSequences', 'presencePenalty'],
  ...['frequencyPenalty', 'seed', 'responseLogprobs', 'logprobs', 'responseMimeType', 'responseSchema'],
  ...['responseJsonSchema', 'responseModalities', 'thinkingConfig'],
])

/**
 * Translates a request in Google's form to a chat request for a target. Throws a GatewayError 400 naming the field that cannot
 * be translated.
 */
export function toChatRequest(body: GenerateContentRequest, target: Target): ChatRequest {
  refuseFields(body)
  const config = body.generationConfig ?? {}
  return {
    model: body.model,
    messages: conversation(body, target),
    ...(body.stream && { stream: true }),
    ...sampling(config),
    ...chatTools(body),
    ...effort(config),
    ...responseFormat(config),
    ...modalities(config),
  }
}

/** The members of a request that are not translated although they ask for something, by their paths. */
export function droppedFields({ generationConfig = {}, safetySettings }: GenerateContentRequest): string[] {
  const settings = Object.entries(generationConfig).filter(([name, value]) => !translated.has(name) && value != null)
  const tooMany = (generationConfig.stopSequences?.length ?? 0) > maxStops
  return [
    ...settings.map(([name]) => `generationConfig.${name}`),
    ...(tooMany ? ['generationConfig.stopSequences'] : []),
    ...(safetySettings?.length ? ['safetySettings'] : []),
  ]
}

/** Refuses what only Google's API can fulfil, if its omission would change the answer. */
function refuseFields(body: GenerateContentRequest): void {
  for (const [name, member] of generateContentMembers)
    if (member.matters && asksFor(member, body[name]))
      throw unsupported(name, `${name}: caches are not kept here; send the contents themselves`)
}

function sampling(config: GenerationConfig) {
  const { temperature, topP, topK, candidateCount, maxOutputTokens, presencePenalty, frequencyPenalty, seed } = config
  const stop = (config.stopSequences ?? []).filter(sequence => sequence !== '').slice(0, maxStops)
  return {
    ...(maxOutputTokens && { max_completion_tokens: maxOutputTokens }),
    ...(temperature !== undefined && { temperature: Math.min(Math.max(temperature, 0), 2) }),
    ...(topP !== undefined && { top_p: topP }),
    ...(topK !== undefined && { top_k: topK }),
    ...(candidateCount !== undefined && candidateCount > 1 && { n: candidateCount }),
    ...(stop.length > 0 && { stop }),
    ...(presencePenalty !== undefined && { presence_penalty: presencePenalty }),
    ...(frequencyPenalty !== undefined && { frequency_penalty: frequencyPenalty }),
    ...(seed !== undefined && { seed }),
    ...(config.responseLogprobs && { logprobs: true, ...(config.logprobs && { top_logprobs: config.logprobs }) }),
  }
}

const levels: Record<string, Effort> = { MINIMAL: 'minimal', LOW: 'low', MEDIUM: 'medium', HIGH: 'high' }

function effort({ thinkingConfig }: GenerationConfig): Pick<ChatRequest, 'reasoning_effort'> {
  const { thinkingLevel, thinkingBudget } = thinkingConfig ?? {}
  if (thinkingLevel !== undefined && thinkingLevel !== 'THINKING_LEVEL_UNSPECIFIED') {
    const reasoning_effort = levels[thinkingLevel.toUpperCase()]
    if (reasoning_effort) return { reasoning_effort }
    const param = 'generationConfig.thinkingConfig.thinkingLevel'
    throw new GatewayError('invalid_request', `${param}: must be MINIMAL, LOW, MEDIUM or HIGH.`, { param })
  }
  // -1 leaves it to the model.
  if (thinkingBudget === undefined || thinkingBudget < 0) return {}
  return { reasoning_effort: thinkingBudget === 0 ? 'none' : effortOfBudget(thinkingBudget) }
}

function responseFormat(config: GenerationConfig): Pick<ChatRequest, 'response_format'> {
  const { responseMimeType: type, responseSchema, responseJsonSchema: given } = config
  if (given != null && !isObject(given)) {
    const param = 'generationConfig.responseJsonSchema'
    throw new GatewayError('invalid_request', `${param}: must be a JSON Schema.`, { param })
  }
  const schema = isObject(given) ? given : responseSchema && jsonSchemaOf(responseSchema)
  if (type !== undefined && type !== 'text/plain' && type !== 'application/json')
    throw unsupported(
      'generationConfig.responseMimeType',
      'generationConfig.responseMimeType: this model takes text/plain and application/json',
    )
  if (schema) {
    const json_schema = { name: 'answer', schema, ...(isStrict(schema) && { strict: true }) }
    return { response_format: { type: 'json_schema', json_schema } }
  }
  return type === 'application/json' ? { response_format: { type: 'json_object' } } : {}
}

function modalities({ responseModalities = [] }: GenerationConfig): Pick<ChatRequest, 'modalities'> {
  const wanted = new Set(responseModalities.map(modality => modality.toLowerCase()))
  wanted.delete('modality_unspecified')
  const other = [...wanted].find(modality => modality !== 'text' && modality !== 'image')
  if (other !== undefined)
    throw unsupported(
      'generationConfig.responseModalities',
      `generationConfig.responseModalities: this model cannot answer with ${other.slice(0, 20)} in this format`,
    )
  return wanted.has('image') ? { modalities: wanted.has('text') ? ['text', 'image'] : ['image'] } : {}
}

function unsupported(param: string, message: string): GatewayError {
  return new GatewayError('unsupported_capability', `${message}.`, { param })
}
