import { isObject } from '../../base/is-object.ts'
import { isCount } from '../../base/usage.ts'
import { promptUsage, type RerankOutput } from '../../kinds/rerank.ts'
import type { SyncAdapter, SyncCall } from '../contract.ts'
import { ProviderError } from '../provider-error.ts'

/** How one provider writes rankings. */
export type RerankForm = {
  path: string | ((call: SyncCall<'rerank'>) => string)
  body(call: SyncCall<'rerank'>): object
  /** The list of results in an answer. */
  results: 'results' | 'data'
}

/** A ranking in Jina's form, which vLLM and other servers have, too (jina.ai/reranker, docs.vllm.ai, `JinaRerankRequest`). */
export const jinaForm: RerankForm = {
  path: '/rerank',
  body: ({ input, target }) => ({
    model: target.deployment.upstream_model,
    query: input.query,
    documents: input.documents,
    ...(input.maxResults !== null && { top_n: input.maxResults }),
    return_documents: false,
  }),
  results: 'results',
}

/** `POST /v1/rerank` of Voyage (`RerankRequest` of `voyageai`). */
export const voyageForm: RerankForm = {
  path: '/rerank',
  body: ({ input, target }) => ({
    model: target.deployment.upstream_model,
    query: input.query,
    documents: input.documents,
    ...(input.maxResults !== null && { top_k: input.maxResults }),
    ...(input.truncates !== null && { truncation: input.truncates }),
  }),
  results: 'data',
}

/** `POST /v2/rerank` of Cohere (`V2RerankRequest` of `cohere-ai`), whose field for the model is in the path at Bedrock. */
export const cohereForm: RerankForm = {
  path: '/v2/rerank',
  body: ({ input, target }) => ({
    model: target.deployment.upstream_model,
    query: input.query,
    documents: input.documents,
    ...(input.maxResults !== null && { top_n: input.maxResults }),
    ...(input.maxTokensPerDocument !== null && { max_tokens_per_doc: input.maxTokensPerDocument }),
  }),
  results: 'results',
}

/** The adapter for rankings in a form that may depend on the provider. */
export function rerankAdapter(formOf: (call: SyncCall<'rerank'>) => RerankForm): SyncAdapter<'rerank'> {
  return {
    async make(call, connection) {
      const form = formOf(call)
      const path = typeof form.path === 'string' ? form.path : form.path(call)
      const request = { method: 'POST', path, json: form.body(call), signal: call.signal, maxBytes } as const
      return read((await connection.send(request)).json, form.results, call.input)
    },
  }
}

/** Ten thousand results with their documents, if a server returns these all the same. */
const maxBytes = 32 << 20

function read(
  json: unknown,
  name: RerankForm['results'],
  { documents, maxResults }: SyncCall<'rerank'>['input'],
): RerankOutput {
  const list = isObject(json) ? json[name] : undefined
  if (!Array.isArray(list)) throw malformed(`without \`${name}\``)
  const seen = new Set<number>()
  const results = list.map(one => {
    const { index, relevance_score } = isObject(one) ? one : {}
    if (!Number.isInteger(index) || (index as number) < 0 || (index as number) >= documents.length)
      throw malformed('with a document that was not sent')
    if (typeof relevance_score !== 'number' || seen.has(index as number)) throw malformed('with a result that is none')
    seen.add(index as number)
    return { index: index as number, relevance_score }
  })
  results.sort((a, b) => b.relevance_score - a.relevance_score)
  return { results: results.slice(0, maxResults ?? results.length), ...countsIn(json as object) }
}

/** Tokens in `usage`, or search units in `meta`. */
function countsIn(json: object): Pick<RerankOutput, 'usage' | 'searchUnits'> {
  const { usage, meta } = json as { usage?: unknown; meta?: unknown }
  const tokens = isObject(usage) ? (usage.total_tokens ?? usage.prompt_tokens) : undefined
  const units = isObject(meta) && isObject(meta.billed_units) ? meta.billed_units.search_units : undefined
  return {
    usage: isCount(tokens) ? promptUsage(tokens) : null,
    searchUnits: isCount(units) ? units : null,
  }
}

function malformed(how: string): ProviderError {
  return new ProviderError('invalid_response', `The provider answered a ranking ${how}.`)
}
