import { GatewayError } from '../../../base/errors.ts'
import type { Avatar, CatalogPage, CatalogQuery, Voice } from '../../avatar-catalog.ts'
import type { AvatarCatalog } from '../../contract.ts'
import { ProviderError } from '../../provider-error.ts'

/** Fictitious avatars and voices for test keys. */

const avatarRows = [
  ['Ada', 'studio_avatar', 'female'],
  ['Bruno', 'studio_avatar', 'male'],
  ['Chidi', 'studio_avatar', 'male'],
  ['Dilan', 'studio_avatar', 'female'],
  ['Esra', 'studio_avatar', 'female'],
  ['Farid', 'photo_avatar', 'male'],
  ['Greta', 'photo_avatar', 'female'],
  ['Hiro', 'photo_avatar', 'male'],
  ['Imani', 'photo_avatar', 'female'],
  ['Jun', 'digital_twin', null],
  ['Kaya', 'digital_twin', 'female'],
  ['Luca', 'digital_twin', 'male'],
] as const

const voiceRows = [
  ['Amber', 'English', 'female'],
  ['Birch', 'English', 'male'],
  ['Cedar', 'English', 'male'],
  ['Daisy', 'English', 'female'],
  ['Elm', 'English', null],
  ['Fichte', 'German', 'female'],
  ['Ginster', 'German', 'male'],
  ['Hasel', 'German', 'female'],
  ['Iris', 'French', 'female'],
  ['Jonc', 'French', 'male'],
  ['Lilas', 'French', 'female'],
  ['Mirto', 'Spanish', 'male'],
  ['Nardo', 'Spanish', 'male'],
  ['Olivo', 'Spanish', 'female'],
  ['Pino', 'Italian', 'male'],
  ['Quercia', 'Italian', 'female'],
  ['Ringo', 'Japanese', 'female'],
  ['Sakura', 'Japanese', 'female'],
  ['Tulipa', 'Portuguese', 'female'],
  ['Urze', 'Portuguese', 'male'],
] as const

const voices: Voice[] = voiceRows.map(([name, language, gender], i) => ({
  id: `sandbox-voice-${i + 1}`,
  name,
  language,
  gender,
  preview_audio_url: null,
}))

const avatars: Avatar[] = avatarRows.map(([name, type, gender], i) => ({
  id: `sandbox-avatar-${i + 1}`,
  name,
  type,
  gender,
  preview_image_url: null,
  preview_video_url: null,
  default_voice_id: voices[i]!.id,
}))

const types: ReadonlySet<string> = new Set(avatars.map(({ type }) => type))

/** Pages of fixed lists; the token is the index of the next entry. */
export const sandboxCatalog = {
  avatars: async (query: CatalogQuery) => {
    if (query.type !== undefined && !types.has(query.type))
      throw new GatewayError('invalid_request', `\`type\` is one of ${[...types].join(', ')}.`, { param: 'type' })
    return page(
      avatars.filter(({ type }) => query.type === undefined || type === query.type),
      query,
    )
  },
  voices: async ({ language: wanted, ...query }: CatalogQuery) =>
    page(
      voices.filter(({ language }) => !wanted || language?.toLowerCase() === wanted.toLowerCase()),
      query,
    ),
} satisfies AvatarCatalog

function page<Entry>(entries: Entry[], { token, limit }: CatalogQuery): CatalogPage<Entry> {
  const start = token === null ? 0 : Number(token)
  if (!Number.isSafeInteger(start) || start < 0)
    throw new ProviderError('invalid_request', 'The token is none of the sandbox’s.')
  const end = start + limit
  return { data: entries.slice(start, end), nextToken: end < entries.length ? String(end) : null }
}
