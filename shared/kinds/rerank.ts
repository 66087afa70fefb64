import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import type { Usage } from '../base/usage.ts'
import type { ModelRow } from '../catalog/schema.ts'
import { common, ofOpenRouter, unsupported } from './media.ts'
import { type SyncKindRow, zeroQuantity } from './sync-kind.ts'

const maxDocuments = 10_000
/** Where several fields of a document are ranked, and the caller does not say which. */
const usualFields = ['text']

const document = z.union([z.string(), z.record(z.string(), z.unknown())])

/** `POST /v1/rerank`, in the shape that Cohere, Jina and vLLM share. */
export const rerankRequest = z
  .looseObject({
    ...ofOpenRouter,
    model: common.model,
    query: z.string().min(1).max(200_000).describe('What is searched for.'),
    documents: z
      .array(document)
      .min(1)
      .max(maxDocuments)
      .describe('Texts, or objects whose `text` is ranked, or their `rank_fields`.'),
    top_n: z.int().min(1).nullish().describe('How many results to return, the best first; all without it.'),
    top_k: z.int().min(1).nullish().describe('Voyage’s name of `top_n`.'),
    return_documents: z.boolean().nullish().describe('Whether results have their documents.'),
    rank_fields: z
      .array(z.string().min(1).max(200))
      .min(1)
      .max(100)
      .nullish()
      .describe('The fields of documents that are objects; `text` without it.'),
    max_tokens_per_doc: z.int().min(1).nullish().describe('Longer documents are cut, where the model can do so.'),
    truncation: z.boolean().nullish().describe('False: refused where a document is too long (Voyage).'),
  })
  .meta({ id: 'CreateRerankRequest' })
export type RerankRequest = z.infer<typeof rerankRequest>

/** The fields of a request that are read; others are named as dropped. */
export const rerankFields: ReadonlySet<string> = new Set(Object.keys(rerankRequest.shape))

/** Adapter input of a ranking. */
export type RerankInput = {
  query: string
  documents: readonly string[]
  /** How many results; null = all. */
  maxResults: number | null
  maxTokensPerDocument: number | null
  /** False where a document that is too long is to be refused; null = as the provider does. */
  truncates: boolean | null
}

/** The results, best first, and what the provider counted: tokens or search units, null where it does not say. */
export type RerankOutput = {
  results: { index: number; relevance_score: number }[]
  usage: Usage | null
  searchUnits: number | null
}

export const rerank: SyncKindRow<RerankRequest, RerankInput> = {
  idPrefix: 'rrk',
  path: '/v1/rerank',
  modelsPath: '/v1/models',
  type: 'rerank',
  request: rerankRequest,
  references: () => [],
  input(body, model) {
    const max = model.kind?.max_documents ?? maxDocuments
    if (body.documents.length > max) throw unsupported(model, 'documents', `ranks at most ${max} documents`)
    // Each once: a long text would be sent as often as its name is repeated.
    const fields = body.rank_fields ? [...new Set(body.rank_fields)] : null
    return {
      query: body.query,
      documents: body.documents.map((one, index) => textOf(one, index, fields)),
      maxResults: body.top_n ?? body.top_k ?? null,
      maxTokensPerDocument: body.max_tokens_per_doc ?? null,
      truncates: body.truncation ?? null,
    }
  },
  maxQuantity: (input, model) => {
    const { tokens, searchUnits } = countRanked(input, model, Buffer.byteLength)
    return { ...zeroQuantity, usage: promptUsage(tokens), pieces: searchUnits }
  },
}

/** The text of a document that is ranked. Cohere ranks several fields as lines of YAML. */
function textOf(one: string | Record<string, unknown>, index: number, fields: readonly string[] | null): string {
  if (typeof one === 'string') return one
  const names = fields ?? usualFields
  const found = names.filter(name => one[name] != null)
  if (found.length === 0) {
    const message = `\`documents.${index}\` is an object without ${names.map(name => `\`${name}\``).join(', ')}.`
    throw new GatewayError('invalid_request', message, { param: `documents.${index}` })
  }
  const text = (name: string) => (typeof one[name] === 'string' ? (one[name] as string) : JSON.stringify(one[name]))
  return fields ? found.map(name => `${name}: ${text(name)}`).join('\n') : text(found[0]!)
}

export function promptUsage(tokens: number): Usage {
  return { prompt_tokens: tokens, completion_tokens: 0, total_tokens: tokens }
}

/** Cohere splits a document with the query into parts of this many tokens, and counts a search unit per hundred parts (cohere.com/pricing). */
const tokensPerPart = 500
const partsPerUnit = 100
/** Marks between query and document. */
const tokensPerPair = 8

/**
 * What a ranking costs at most when `tokensIn` is the most tokens that a text can have: each document is read with the query, which
 * counts again (docs.voyageai.com/docs/reranker).
 */
export function countRanked(
  { query, documents, maxTokensPerDocument }: RerankInput,
  { context_length }: ModelRow,
  tokensIn: (text: string) => number,
): { tokens: number; searchUnits: number } {
  const limit = Math.min(maxTokensPerDocument ?? Number.POSITIVE_INFINITY, context_length ?? Number.POSITIVE_INFINITY)
  const ofQuery = tokensIn(query)
  let tokens = 0
  let parts = 0
  for (const text of documents) {
    const ofDocument = Math.min(tokensIn(text), limit)
    tokens += ofQuery + ofDocument + tokensPerPair
    parts += Math.max(1, Math.ceil(ofDocument / Math.max(1, tokensPerPart - ofQuery)))
  }
  return { tokens, searchUnits: Math.ceil(parts / partsPerUnit) }
}
