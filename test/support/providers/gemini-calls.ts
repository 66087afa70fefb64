import { modelRow, providerRow } from '../../../shared/catalog/schema.ts'
import { type ChatRequest, chatRequest } from '../../../shared/kinds/chat.ts'
import { type EmbeddingRequest, embeddingRequest } from '../../../shared/kinds/embedding.ts'
import type { Call, Target } from '../../../shared/providers/contract.ts'

export type Thinking = 'level' | 'budget'

/** A Gemini target; thinking by level means Gemini 3 or newer. */
function target(thinking?: Thinking): Target {
  const traits = thinking && { thinking }
  const upstream_model = thinking === 'budget' ? 'gemini-2.5-flash' : 'gemini-3.5-flash'
  const deployment = { provider: 'gemini', upstream_model, price: { unit: 'token', input: '1', output: '2' }, traits }
  const facts = {
    id: 'X',
    name: 'X',
    type: 'chat',
    owned_by: 'google',
    created: 0,
    description: '',
    context_length: null,
  }
  const limits = {
    max_output_tokens: null,
    input_modalities: ['text'],
    output_modalities: ['text'],
    supported_parameters: ['response_format', 'structured_outputs'],
  }
  const rest = { quality: null, expires_on: null, price_source: null, price_as_of: null, providers: [deployment] }
  const model = modelRow.parse({ ...facts, ...limits, ...rest })
  const provider = { name: 'gemini', protocol: 'gemini', base_url: 'https://gemini.test', auth: 'x-goog-api-key' }
  return { model, deployment: model.providers[0]!, provider: providerRow.parse(provider) }
}

export const user = { role: 'user', content: 'Hi' }

/** A validated chat call with these body fields. */
export function chatCall(fields: object, thinking?: Thinking, extra: Partial<Call<'chat'>> = {}): Call<'chat'> {
  const body: ChatRequest = chatRequest.parse({ model: 'X', messages: [user], ...fields })
  return { target: target(thinking), body, raw: null, maxTokens: null, media: new Map(), ...extra }
}

/** A validated embedding call with these body fields. */
export function embeddingCall(fields: object): Call<'embedding'> {
  const body: EmbeddingRequest = embeddingRequest.parse({ model: 'X', ...fields })
  return { target: target(), body, raw: null, maxTokens: null, media: new Map() }
}
