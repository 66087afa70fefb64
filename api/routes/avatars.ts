import { z } from 'zod'
import type { ErrorCode } from '../../shared/base/errors.ts'
import { listCatalog } from '../../shared/jobs/avatar-catalogs.ts'
import { endpoint } from '../endpoint.ts'
import { avatar, catalogPage, voice } from '../schemas/jobs.ts'

const paging = {
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(100)
    .default(20)
    .describe('The maximum number of entries per page; a page may have fewer.'),
  next_token: z.string().min(1).max(2_000).optional().describe('The `next_token` of the previous page.'),
}
const word = z.string().min(1).max(64)
const errors: ErrorCode[] = ['upstream_error', 'upstream_timeout', 'own_key_refused']
const shared = { tag: 'Talking avatars', method: 'get', access: { scope: null }, free: true } as const

export const listAvatars = endpoint({
  ...shared,
  path: '/v1/avatars',
  operationId: 'listAvatars',
  summary: 'List avatars',
  description: 'Lists the avatars of the configured providers, usable as `avatar_id`. Free of charge.',
  errors,
  query: z.strictObject({ ...paging, type: word.optional().describe('Filter by avatar type.') }),
  answers: { 200: { description: 'A page of avatars.', schema: catalogPage(avatar, 'AvatarList') } },
  async handle({ services, apiKey, query: { type, limit, next_token } }) {
    const listing = { limit, nextToken: next_token ?? null, ...(type && { type }) }
    const { data, nextToken } = await listCatalog(services, apiKey.policy, 'avatars', listing)
    return page('avatar', data, nextToken)
  },
})

export const listVoices = endpoint({
  ...shared,
  path: '/v1/avatars/voices',
  operationId: 'listAvatarVoices',
  summary: 'List voices',
  description: 'Lists the voices of the configured providers, usable as `voice_id`. Free of charge.',
  errors,
  query: z.strictObject({
    ...paging,
    language: word.optional().describe('Filter by language, e.g. `English`.'),
  }),
  answers: { 200: { description: 'A page of voices.', schema: catalogPage(voice, 'VoiceList') } },
  async handle({ services, apiKey, query: { language, limit, next_token } }) {
    const listing = { limit, nextToken: next_token ?? null, ...(language && { language }) }
    const { data, nextToken } = await listCatalog(services, apiKey.policy, 'voices', listing)
    return page('voice', data, nextToken)
  },
})

function page(object: 'avatar' | 'voice', entries: { id: string }[], nextToken: string | null) {
  const data = entries.map(({ id, ...entry }) => ({ id, object, ...entry }))
  return { object: 'list', data, has_more: nextToken !== null, next_token: nextToken }
}
