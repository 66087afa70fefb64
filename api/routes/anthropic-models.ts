import type { IncomingHttpHeaders } from 'node:http'
import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { validate } from '../../shared/base/validate.ts'
import { endpoints as routes } from '../../shared/catalog/schema.ts'
import type { Header } from '../endpoint.ts'
import type { anthropicModel } from '../schemas/anthropic.ts'
import type { modelRow } from '../schemas/models.ts'

type Row = z.infer<typeof modelRow>
type AnthropicModel = z.infer<typeof anthropicModel>

/** Anthropic's clients send it with every request. */
export const anthropicVersion: Header = {
  name: 'anthropic-version',
  maxLength: 100,
  description:
    'The version of Anthropic’s API, which its clients send. In lists of models, any value selects Anthropic’s format, which contains chat models only.',
}

/** Whether a request comes from one of Anthropic's clients. */
export function isAnthropic(headers: IncomingHttpHeaders): boolean {
  return headers[anthropicVersion.name] !== undefined
}

const maxModels = 1_000

/**
 * The query parameters of Anthropic's list, as documented. They are validated only for Anthropic's clients, as unknown
 * parameters of other clients are ignored.
 */
export const anthropicQuery = {
  limit: z
    .unknown()
    .optional()
    .meta({
      type: 'integer',
      minimum: 1,
      maximum: maxModels,
      description: `The maximum number of models per page, with \`anthropic-version\` only. Default: ${maxModels}.`,
    }),
  after_id: z.unknown().optional().meta({
    type: 'string',
    description: 'Returns the models after this one, with `anthropic-version` only.',
  }),
  before_id: z.unknown().optional().meta({
    type: 'string',
    description: 'Returns the models before this one, with `anthropic-version` only.',
  }),
}

const page = z.object({
  limit: z.coerce.number().int().min(1).max(maxModels).default(maxModels),
  after_id: z.string().optional(),
  before_id: z.string().optional(),
})

/** The rows that Anthropic's message format can address. */
export function chatRows<R extends Row>(rows: R[]): R[] {
  return rows.filter(({ endpoint }) => endpoint === routes.chat)
}

/** A page of models in Anthropic's format. Throws 400 naming the parameter. */
export function anthropicPage(rows: Row[], query: object) {
  const { limit, after_id, before_id } = validate(page, query)
  if (after_id !== undefined && before_id !== undefined)
    throw new GatewayError('invalid_request', 'Send `after_id` or `before_id`, not both.', { param: 'before_id' })
  const start = after_id === undefined ? 0 : indexOf(rows, after_id, 'after_id') + 1
  const end = before_id === undefined ? rows.length : indexOf(rows, before_id, 'before_id')
  const from = before_id === undefined ? start : Math.max(start, end - limit)
  const data = rows.slice(from, Math.min(end, from + limit)).map(presentAnthropicModel)
  return {
    data,
    has_more: data.length < end - start,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
  }
}

function indexOf(rows: Row[], id: string, param: string): number {
  const index = rows.findIndex(row => row.id === id)
  if (index >= 0) return index
  throw new GatewayError('invalid_request', `\`${param}\` must be the id of a model in this list.`, { param })
}

/** A model in Anthropic's format, with the description that Claude Code shows. */
export function presentAnthropicModel(row: Row): AnthropicModel {
  return {
    type: 'model',
    id: row.id,
    display_name: row.name,
    description: row.description,
    created_at: new Date(row.created * 1_000).toISOString(),
    max_input_tokens: row.context_length,
    max_tokens: row.max_output_tokens,
    capabilities: null,
    line: null,
    lifecycle: row.expires_on === null ? 'active' : 'deprecated',
    deprecated_at: null,
    retires_at: row.expires_on === null ? null : new Date(row.expires_on).toISOString(),
  }
}
