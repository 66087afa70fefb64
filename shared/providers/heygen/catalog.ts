import { GatewayError } from '../../base/errors.ts'
import type { Avatar, CatalogPage, CatalogQuery, Voice } from '../avatar-catalog.ts'
import type { AvatarCatalog, ProviderLine } from '../contract.ts'
import { at, invalid, list, optionalLink, optionalText, text } from '../fields.ts'

/** The most entries the provider gives at once. */
const mostLooks = 50
const mostVoices = 100
const types = ['studio_avatar', 'digital_twin', 'photo_avatar']

/** The account's avatars, one entry per look (which is what `avatar_id` names), and its voices. */
export const catalog: AvatarCatalog = {
  async avatars({ type, token, limit }, line) {
    if (type !== undefined && !types.includes(type))
      throw new GatewayError('invalid_request', `\`type\` is one of ${types.join(', ')}.`, { param: 'type' })
    const query = { limit: String(Math.min(limit, mostLooks)), ...(type && { avatar_type: type }) }
    const page = await pageOf('/v3/avatars/looks', query, token, line)
    return { ...page, data: usable(page.data.filter(isReady), avatarFrom) }
  },
  async voices({ language, token, limit }, line) {
    const query = { limit: String(Math.min(limit, mostVoices)), ...(language && { language }) }
    const page = await pageOf('/v3/voices', query, token, line)
    return { ...page, data: usable(page.data, voiceFrom) }
  },
}

async function pageOf(
  path: string,
  query: Record<string, string>,
  token: CatalogQuery['token'],
  line: ProviderLine,
): Promise<CatalogPage<unknown>> {
  const asked = new URLSearchParams({ ...query, ...(token && { token }) })
  const { json } = await line.send({ method: 'GET', path: `${path}?${asked}` })
  return { data: list(json, 'data'), nextToken: at(json, 'has_more') === true ? text(json, 'next_token') : null }
}

/** A look of one's own may still be in the making; those of the library have no status. */
function isReady(look: unknown): boolean {
  return (optionalText(look, 'status') ?? 'completed') === 'completed'
}

/** Entries that nobody can use are passed over; where that leaves nothing, the answer is not understood. */
function usable<Entry>(entries: unknown[], read: (entry: unknown) => Entry | []): Entry[] {
  const found = entries.flatMap(read)
  if (found.length === 0 && entries.length > 0) throw invalid('its entries have no ids')
  return found
}

/** None for an entry that nobody can use; one without a name goes by its id. */
function avatarFrom(look: unknown): Avatar | [] {
  const id = optionalText(look, 'id')
  const type = optionalText(look, 'avatar_type')
  if (id === null || type === null) return []
  return {
    id,
    name: optionalText(look, 'name') ?? id,
    type,
    gender: optionalText(look, 'gender'),
    preview_image_url: optionalLink(look, 'preview_image_url'),
    preview_video_url: optionalLink(look, 'preview_video_url'),
    default_voice_id: optionalText(look, 'default_voice_id'),
  }
}

function voiceFrom(voice: unknown): Voice | [] {
  const id = optionalText(voice, 'voice_id')
  if (id === null) return []
  return {
    id,
    name: optionalText(voice, 'name') ?? id,
    language: optionalText(voice, 'language'),
    gender: optionalText(voice, 'gender'),
    preview_audio_url: optionalLink(voice, 'preview_audio_url'),
  }
}
