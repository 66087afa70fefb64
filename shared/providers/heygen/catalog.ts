import { GatewayError } from '../../base/errors.ts'
import type { Avatar, AvatarCatalog, CatalogPage, CatalogQuery, ProviderLine, Voice } from '../contract.ts'
import { at, list, optionalLink, optionalText, text } from '../fields.ts'

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
    return { ...page, data: page.data.filter(isReady).map(avatarFrom) }
  },
  async voices({ language, token, limit }, line) {
    const query = { limit: String(Math.min(limit, mostVoices)), ...(language && { language }) }
    const page = await pageOf('/v3/voices', query, token, line)
    return { ...page, data: page.data.map(voiceFrom) }
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

function avatarFrom(look: unknown): Avatar {
  return {
    id: text(look, 'id'),
    name: text(look, 'name'),
    type: text(look, 'avatar_type'),
    gender: optionalText(look, 'gender'),
    preview_image_url: optionalLink(look, 'preview_image_url'),
    preview_video_url: optionalLink(look, 'preview_video_url'),
    default_voice_id: optionalText(look, 'default_voice_id'),
  }
}

function voiceFrom(voice: unknown): Voice {
  return {
    id: text(voice, 'voice_id'),
    name: text(voice, 'name'),
    language: optionalText(voice, 'language'),
    gender: optionalText(voice, 'gender'),
    preview_audio_url: optionalLink(voice, 'preview_audio_url'),
  }
}
