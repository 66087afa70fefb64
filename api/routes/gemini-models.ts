import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { endpoints as routes } from '../../shared/catalog/schema.ts'
import { endpoint } from '../endpoint.ts'
import { modelInPath } from '../google-dialect.ts'
import { geminiModel, geminiModelList } from '../schemas/gemini.ts'
import type { modelRow } from '../schemas/models.ts'
import { modelNotFound, visibleModels } from './models.ts'

type Row = z.infer<typeof modelRow>

const maxModels = 1_000
const defaultModels = 50

/** The methods of Google's API that serve the models of a route. */
const methodsByRoute: { [route: string]: string[] } = {
  [routes.chat]: ['generateContent', 'streamGenerateContent', 'countTokens'],
  [routes.embeddings]: ['embedContent', 'batchEmbedContents'],
}

export const listGeminiModels = endpoint({
  method: 'get',
  path: '/v1beta/models',
  aliases: ['/v1alpha/models'],
  dialect: 'google',
  operationId: 'listGeminiModels',
  tag: 'Gemini',
  summary: 'List models in Google’s format',
  description: 'Lists the models for chat and embeddings that the key can use, in pages.',
  access: { scope: null },
  free: true,
  query: z.object({
    pageSize: z.coerce
      .number()
      .int()
      .min(0)
      .default(defaultModels)
      .describe(`The maximum number of models per page, at most ${maxModels}. Default: ${defaultModels}.`),
    pageToken: z.string().max(500).optional().describe('The `nextPageToken` of the page before.'),
  }),
  answers: { 200: { description: 'The models.', schema: geminiModelList } },
  async handle({ services, apiKey, query: { pageSize, pageToken } }) {
    const rows = visibleModels(services, apiKey.policy, undefined).filter(row => methodsOf(row).length > 0)
    const start = pageToken === undefined || pageToken === '' ? 0 : positionOf(rows, pageToken) + 1
    const page = rows.slice(start, start + Math.min(pageSize || defaultModels, maxModels))
    const isLast = start + page.length >= rows.length
    return { models: page.map(presentGeminiModel), ...(!isLast && { nextPageToken: tokenOf(page.at(-1)!) }) }
  },
})

export const readGeminiModel = endpoint({
  method: 'get',
  path: '/v1beta/models/{model}',
  aliases: ['/v1alpha/models/{model}'],
  deep: true,
  dialect: 'google',
  operationId: 'getGeminiModel',
  tag: 'Gemini',
  summary: 'Retrieve a model in Google’s format',
  description: 'Retrieves one model for chat or embeddings by its id or one of its aliases.',
  access: { scope: null },
  free: true,
  answers: { 200: { description: 'The model.', schema: geminiModel } },
  errors: ['model_not_found'],
  async handle({ services, apiKey, params }) {
    const slug = modelInPath(params)
    const id = services.catalog.find(slug)?.id ?? slug
    const row = visibleModels(services, apiKey.policy, undefined).find(one => one.id === id)
    if (row && methodsOf(row).length > 0) return presentGeminiModel(row)
    throw modelNotFound(services.catalog, slug, '/v1beta/models')
  },
})

function methodsOf({ endpoint: route }: Pick<Row, 'endpoint'>): string[] {
  return methodsByRoute[route] ?? []
}

function presentGeminiModel(row: Row): z.infer<typeof geminiModel> {
  return {
    name: `models/${row.id}`,
    baseModelId: row.id,
    version: '1',
    displayName: row.name,
    description: row.description,
    ...(row.context_length !== null && { inputTokenLimit: row.context_length }),
    ...(row.max_output_tokens !== null && { outputTokenLimit: row.max_output_tokens }),
    supportedGenerationMethods: methodsOf(row),
    ...(row.supported_parameters.includes('reasoning_effort') && { thinking: true }),
  }
}

function tokenOf({ id }: Row): string {
  return Buffer.from(id).toString('base64url')
}

function positionOf(rows: readonly Row[], token: string): number {
  const id = Buffer.from(token, 'base64url').toString()
  const position = rows.findIndex(row => row.id === id)
  if (position >= 0) return position
  throw new GatewayError('invalid_request', '`pageToken` must be the `nextPageToken` of an earlier page.', {
    param: 'pageToken',
  })
}
