import type { Protocol } from '../../contract.ts'
import { cohereForm, rerankAdapter } from '../../toolkit/rerank.ts'
import { failure } from '../openai/failure.ts'

/** Cohere's own API (`cohere-ai`). */
export const cohere: Protocol = {
  direct: {},
  synchronous: { rerank: rerankAdapter(() => cohereForm) },
  credentialCheck: () => ({ path: '/v1/models?page_size=1' }),
  failure,
}
