import { Emulator, json, type Recorded, type Reply } from './emulator.ts'
import type { Json } from './slow-work.ts'

/** How one provider of rankings takes and gives them. */
type Form = {
  path: string
  models: readonly string[]
  /** The fields that it takes, with the type of each. */
  fields: Record<string, (value: unknown) => boolean>
  maxDocuments: number
  answer(results: Result[], body: Json): object
  error(status: number, message: string): Reply
}
type Result = { index: number; relevance_score: number }

const isText = (value: unknown) => typeof value === 'string'
const isCount = (value: unknown) => Number.isInteger(value) && (value as number) > 0
const isFlag = (value: unknown) => typeof value === 'boolean'
const areTexts = (value: unknown) => Array.isArray(value) && value.length > 0 && value.every(isText)

const tokensIn = (text: string) => Math.ceil(text.length / 4)
const common = { model: isText, query: isText, documents: areTexts }

function pairTokens({ query, documents }: Json): number {
  return (documents as string[]).reduce((sum, text) => sum + tokensIn(text) + tokensIn(query), 0)
}

/** `V2RerankRequest` and `V2RerankResponse` of `cohere-ai`; errors have `message`. */
const cohere: Form = {
  path: '/v2/rerank',
  models: ['rerank-v3.5', 'rerank-english-v3.0', 'rerank-multilingual-v3.0'],
  fields: { ...common, top_n: isCount, max_tokens_per_doc: isCount, priority: isCount },
  maxDocuments: 10_000,
  answer: (results, { documents }) => ({
    id: '07734bd2-2473-4f07-94e1-0d9f0e6843cf',
    results,
    meta: { api_version: { version: '2' }, billed_units: { search_units: Math.ceil(documents.length / 100) } },
  }),
  error: (status, message) => json(status, { id: '1f2b', message }),
}

/** `RerankRequest` and `RerankResponse` of `voyageai`; errors have `detail`. */
const voyage: Form = {
  path: '/v1/rerank',
  models: ['rerank-2.5', 'rerank-2.5-lite', 'rerank-2', 'rerank-2-lite'],
  fields: { ...common, top_k: isCount, return_documents: isFlag, truncation: isFlag },
  maxDocuments: 1_000,
  answer: (data, body) => ({ object: 'list', data, model: body.model, usage: { total_tokens: pairTokens(body) } }),
  error: (status, detail) => json(status, { detail }),
}

/** jina.ai/reranker; errors have `detail`. */
const jina: Form = {
  path: '/v1/rerank',
  models: ['jina-reranker-v2-base-multilingual'],
  fields: { ...common, top_n: isCount, return_documents: isFlag },
  maxDocuments: 2_048,
  answer: (results, body) => ({
    model: body.model,
    object: 'list',
    usage: { total_tokens: pairTokens(body) },
    results,
  }),
  error: (status, detail) => json(status, { detail }),
}

export const rerankForms = { cohere, voyage, jina }

/** A provider of rankings on a local port; the API key `invalid` is refused, and so is every field that it does not have. */
export function startRankings({ path, models, fields, maxDocuments, answer, error }: Form): Promise<Emulator> {
  const reply = ({ method, path: asked, headers, body }: Recorded): Reply => {
    const [, key] = /^Bearer (\S+)$/i.exec(headers.authorization ?? '') ?? []
    if (!key || key === 'invalid') return error(401, 'invalid api token')
    if (method !== 'POST' || asked !== path) return error(404, 'Not Found')
    if (!body || typeof body !== 'object') return error(400, 'invalid request: body is not JSON')
    for (const name of Object.keys(common)) if (body[name] === undefined) return error(400, `${name} is required`)
    for (const [name, value] of Object.entries(body)) {
      if (!fields[name]) return error(422, `unknown field: parameter '${name}' is not a valid field`)
      if (!fields[name](value)) return error(400, `invalid type of parameter '${name}'`)
    }
    if (!models.includes(body.model)) return error(404, `model '${body.model}' not found`)
    if (body.documents.length > maxDocuments) return error(400, `too many documents: at most ${maxDocuments}`)
    return json(200, answer(rank(body), body))
  }
  return Emulator.start((request, response) => reply(request)(request, response))
}

/** By the words that a document shares with the query. */
function rank({ query, documents, top_n, top_k }: Json): Result[] {
  const words = (text: string) => new Set(text.toLowerCase().match(/\w+/g))
  const asked = words(query)
  const results = (documents as string[]).map((text, index) => {
    const shared = [...words(text)].filter(word => asked.has(word)).length
    return { index, relevance_score: shared / (asked.size + 1) }
  })
  return results.sort((a, b) => b.relevance_score - a.relevance_score).slice(0, top_n ?? top_k ?? results.length)
}
