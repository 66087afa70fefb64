import { GatewayError } from '../../../base/errors.ts'
import type { Avatar, CatalogPage, CatalogQuery, Voice } from '../../avatar-catalog.ts'
import type { AvatarCatalog, ProviderConnection } from '../../contract.ts'
import {
  invalidResponse,
  readList,
  readOptionalLink,
  readOptionalText,
  readText,
  valueAt,
} from '../../toolkit/json-fields.ts'

/** The provider's maximum page size. */
const maxLooks = 50
const maxVoices = 100
const types = ['studio_avatar', 'digital_twin', 'photo_avatar']

/** The account's avatars, one entry per look (`avatar_id` is the id of a look), and its voices. */
export const catalog: AvatarCatalog = {
  async avatars({ type, token, limit }, connection) {
    if (type !== undefined && !types.includes(type))
      throw new GatewayError('invalid_request', `\`type\` is one of ${types.join(', ')}.`, { param: 'type' })
    const query = { limit: String(Math.min(limit, maxLooks)), ...(type && { avatar_type: type }) }
    const page = await pageOf('/v3/avatars/looks', query, token, connection)
    return { ...page, data: readUsable(page.data.filter(isReady), avatarFrom) }
  },
  async voices({ language, token, limit }, connection) {
    const query = { limit: String(Math.min(limit, maxVoices)), ...(language && { language }) }
    const page = await pageOf('/v3/voices', query, token, connection)
    return { ...page, data: readUsable(page.data, voiceFrom) }
  },
}

async function pageOf(
  path: string,
  query: Record<string, string>,
  token: CatalogQuery['token'],
  connection: ProviderConnection,
): Promise<CatalogPage<unknown>> {
  const parameters = new URLSearchParams({ ...query, ...(token && { token }) })
  const { json } = await connection.send({ method: 'GET', path: `${path}?${parameters}` })
  return {
    data: readList(json, 'data'),
    nextToken: valueAt(json, 'has_more') === true ? readText(json, 'next_token') : null,
  }
}

/** A custom look may still be processing; those of the library have no status. */
function isReady(look: unknown): boolean {
  return (readOptionalText(look, 'status') ?? 'completed') === 'completed'
}

/** Skips unusable entries; if that leaves none, the response is malformed. */
function readUsable<Entry>(entries: unknown[], read: (entry: unknown) => Entry | []): Entry[] {
  const usableEntries = entries.flatMap(read)
  if (usableEntries.length === 0 && entries.length > 0) throw invalidResponse('its entries have no ids')
  return usableEntries
}

/** Empty for an unusable entry; an entry without a name is named by its id. */
function avatarFrom(look: unknown): Avatar | [] {
  const id = readOptionalText(look, 'id')
  const type = readOptionalText(look, 'avatar_type')
  if (id === null || type === null) return []
  return {
    id,
    name: readOptionalText(look, 'name') ?? id,
    type,
    gender: readOptionalText(look, 'gender'),
    preview_image_url: readOptionalLink(look, 'preview_image_url'),
    preview_video_url: readOptionalLink(look, 'preview_video_url'),
    default_voice_id: readOptionalText(look, 'default_voice_id'),
  }
}

function voiceFrom(voice: unknown): Voice | [] {
  const id = readOptionalText(voice, 'voice_id')
  if (id === null) return []
  return {
    id,
    name: readOptionalText(voice, 'name') ?? id,
    language: readOptionalText(voice, 'language'),
    gender: readOptionalText(voice, 'gender'),
    preview_audio_url: readOptionalLink(voice, 'preview_audio_url'),
  }
}
