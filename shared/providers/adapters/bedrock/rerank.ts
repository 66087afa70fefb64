import type { SyncCall } from '../../contract.ts'
import { type RerankForm, rerankAdapter } from '../../toolkit/rerank.ts'
import { modelPath } from './chat.ts'

/**
 * `POST /model/{modelId}/invoke` for rankings. Cohere's models want `api_version` 2, Amazon's have no such field
 * (docs.aws.amazon.com/bedrock/latest/userguide/rerank-supported.html).
 */
const invokeForm: RerankForm = {
  path: ({ target }) => modelPath(target.deployment.upstream_model, 'invoke'),
  body: ({ input, target }: SyncCall<'rerank'>) => ({
    ...(target.deployment.upstream_model.startsWith('cohere.') && { api_version: 2 }),
    query: input.query,
    documents: input.documents,
    ...(input.maxResults !== null && { top_n: input.maxResults }),
  }),
  results: 'results',
}

export const rerank = rerankAdapter(() => invokeForm)
