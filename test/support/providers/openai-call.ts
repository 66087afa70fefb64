import type { Deployment, ModelRow, ProviderRow } from '../../../shared/catalog/schema.ts'
import type { DirectKind } from '../../../shared/kinds/index.ts'
import type { Call } from '../../../shared/providers/contract.ts'

/** What a call may be given beside its body. */
export type Given = { quirks?: ProviderRow['quirks']; traits?: Deployment['traits']; maxTokens?: number; raw?: Buffer }

/** A call to an OpenAI-compatible provider whose model there is `up-1`. */
// biome-ignore lint/suspicious/noExplicitAny: bodies are loose objects here as on the wire
export function call<K extends DirectKind>(body: any, { quirks, traits, maxTokens, raw }: Given = {}): Call<K> {
  const deployment: Deployment = {
    provider: 'p',
    upstream_model: 'up-1',
    price: { unit: 'token', input: '1', output: '1' },
    ...(traits && { traits }),
  }
  const provider: ProviderRow = {
    name: 'p',
    protocol: 'openai',
    base_url: 'http://127.0.0.1/v1',
    auth: 'bearer',
    ...(quirks && { quirks }),
  }
  const target = { model: {} as ModelRow, deployment, provider }
  return { target, body, raw: raw ?? null, maxTokens: maxTokens ?? null, media: new Map() }
}
