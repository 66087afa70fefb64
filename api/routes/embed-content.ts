import { GatewayError } from '../../shared/base/errors.ts'
import type { EmbeddingRequest, Embeddings } from '../../shared/kinds/embedding.ts'
import {
  type BatchEmbedContentsRequest,
  batchEmbedContentsRequest,
  type EmbedContentRequest,
  embedContentRequest,
  type GeminiContent,
} from '../../shared/kinds/generate-content.ts'
import { nameInGemini } from '../../shared/kinds/generate-content-names.ts'
import { embeddingFeatures } from '../../shared/routing/features.ts'
import type { Endpoint, RequestWithoutKoa } from '../endpoint.ts'
import { googleAliases } from '../google-dialect.ts'
import type { HttpResponse } from '../http-response.ts'
import { embeddedContent, embeddedContents } from '../schemas/gemini.ts'
import { generationHeaders } from '../schemas/headers.ts'
import { runDirect } from './chat.ts'
import { readGoogleBody } from './generate-content.ts'
import { modelErrors } from './model-errors.ts'
import { cacheHeader, labelHeaders } from './request-headers.ts'

const shared = {
  method: 'post',
  deep: true,
  dialect: 'google',
  tag: 'Gemini',
  access: { scope: 'embeddings' },
  bypassesKoa: true,
  headers: [cacheHeader, ...labelHeaders],
  readBody: (body: { value: unknown; raw: Buffer }, params: Record<string, string>) => readGoogleBody(body, params),
  errors: ['context_length_exceeded', ...modelErrors],
} satisfies Partial<Endpoint>
const headers = [
  ...generationHeaders,
  ...(['x-gateway-cache', 'age', 'x-gateway-dropped', 'x-gateway-adjusted'] as const),
]
const example = { content: { parts: [{ text: 'The food was delicious.' }] }, taskType: 'RETRIEVAL_DOCUMENT' }

export const embedContent: Endpoint = {
  ...shared,
  path: '/v1beta/models/{model}:embedContent',
  aliases: googleAliases('embedContent'),
  operationId: 'embedContent',
  summary: 'Embed a content',
  description: 'The vector of one text, in the format of Google’s Gemini API, by any model for embeddings.',
  body: embedContentRequest.meta({ id: 'EmbedContentRequest' }),
  example,
  answers: { 200: { description: 'The vector.', schema: embeddedContent, headers } },
  handle: (request: RequestWithoutKoa<EmbedContentRequest>) =>
    embed(request, [request.body], 'content', vectors => ({ embedding: vectors[0] })),
}

export const batchEmbedContents: Endpoint = {
  ...shared,
  path: '/v1beta/models/{model}:batchEmbedContents',
  aliases: googleAliases('batchEmbedContents'),
  operationId: 'batchEmbedContents',
  summary: 'Embed several contents',
  description:
    'The vectors of several texts, in the order of the requests, which must agree in all but text and title.',
  body: batchEmbedContentsRequest.meta({ id: 'BatchEmbedContentsRequest' }),
  example: { requests: [example, { ...example, content: { parts: [{ text: 'The waiter was friendly.' }] } }] },
  answers: { 200: { description: 'The vectors.', schema: embeddedContents, headers } },
  handle: (request: RequestWithoutKoa<BatchEmbedContentsRequest>) =>
    embed(request, request.body.requests, 'requests', embeddings => ({ embeddings })),
}

type Asked = Pick<EmbedContentRequest, 'content' | 'taskType' | 'title' | 'outputDimensionality'>
type Vector = { values: number[] }

/** Runs the equivalent request for embeddings, and answers with the vectors in Google's form. */
async function embed(
  request: RequestWithoutKoa<{ model: string }>,
  asked: readonly Asked[],
  at: 'content' | 'requests',
  shape: (vectors: Vector[]) => object,
): Promise<void> {
  const body = embeddingRequestOf(request.body.model, asked, at)
  const raw = Buffer.from(JSON.stringify(body))
  reshape(request.client, text => {
    const { data, usage } = JSON.parse(text) as Embeddings
    const usageMetadata = usage && { usageMetadata: { promptTokenCount: usage.prompt_tokens } }
    return JSON.stringify({
      ...shape(data.map(({ embedding }) => ({ values: embedding as number[] }))),
      ...usageMetadata,
    })
  })
  await runDirect('embedding', { ...pick(request), body, raw }, embeddingFeatures(body, raw.length))
}

/** What a run needs of a request: its state has getters, which a copy would lose. */
function pick({ services, apiKey, requestId, headers, logFields, client }: RequestWithoutKoa<unknown>) {
  return { services, apiKey, requestId, headers, logFields, client }
}

function embeddingRequestOf(model: string, asked: readonly Asked[], at: 'content' | 'requests'): EmbeddingRequest {
  const [first] = asked
  const place = (index: number) => (at === 'content' ? '' : `requests.${index}.`)
  for (const [index, one] of asked.entries())
    for (const name of ['taskType', 'outputDimensionality'] as const)
      if (one[name] !== first![name]) throw invalid(`${place(index)}${name}`, 'must be the same in all requests')
  const { taskType, outputDimensionality } = first!
  const hasTitles = asked.some(({ title }) => title !== undefined)
  return {
    model,
    input: asked.map(({ content }, index) => textOf(content, `${place(index)}content`)),
    ...(outputDimensionality !== undefined && { dimensions: outputDimensionality }),
    ...(taskType !== undefined && { task_type: taskType }),
    ...(hasTitles && { titles: asked.map(({ title = '' }) => title) }),
  }
}

function textOf({ parts = [] }: GeminiContent, at: string): string {
  const texts = parts.map(({ text }, index) => {
    if (text === undefined) throw unsupported(`${at}.parts.${index}`, 'only texts can be embedded')
    return text
  })
  const text = texts.filter(one => one !== '').join('\n')
  if (text === '') throw invalid(`${at}.parts`, 'must have a text')
  return text
}

/** Has a response change the body of its answer, and the names of fields in its headers, before it is sent or stored. */
function reshape(client: HttpResponse, change: (body: string) => string): void {
  const next = client.onAnswer
  client.onAnswer = (status, headers, body) => {
    client.onAnswer = next
    const shaped = change(String(body))
    const dropped = headers['x-gateway-dropped']
    const named = dropped === undefined ? headers : { ...headers, 'x-gateway-dropped': inGeminiNames(dropped) }
    if (next) next(status, named, shaped)
    else client.reply(status, named, shaped)
  }
}

function inGeminiNames(names: string): string {
  return names
    .split(',')
    .map(name => nameInGemini(name.trim()))
    .join(', ')
}

function invalid(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', `\`${param}\` ${message}.`, { param })
}

function unsupported(param: string, message: string): GatewayError {
  return new GatewayError('unsupported_capability', `\`${param}\`: ${message}.`, { param })
}
