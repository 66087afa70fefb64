import { base64Of, isDataUri } from '../../../base/data-uri.ts'
import { GatewayError } from '../../../base/errors.ts'
import type { ChatRequest } from '../../../kinds/chat.ts'
import type { Call } from '../../contract.ts'
import { readDataUri, textOfFile } from '../../toolkit/data-uri.ts'

export type InlineData = { inlineData: { mimeType: string; data: string } }

type UserMessage = Extract<ChatRequest['messages'][number], { role: 'user' }>
type UserPart = Exclude<UserMessage['content'], string>[number]
type Of<Type extends UserPart['type']> = Extract<UserPart, { type: Type }>

const audioTypes: Record<string, string> = {
  wav: 'audio/wav',
  mp3: 'audio/mp3',
  aiff: 'audio/aiff',
  aac: 'audio/aac',
  ogg: 'audio/ogg',
  flac: 'audio/flac',
}

/** An `image_url` part: a base64 data URI, or the bytes fetched from its URL. `at` is the part's path in the body. */
export function image(part: Of<'image_url'>, at: string, media: Call<'chat'>['media']): InlineData {
  const { url } = part.image_url
  const param = `${at}.image_url.url`
  if (!isHttp(url)) return inline(url, 'image/', param)
  const fetched = media.get(url)
  if (!fetched) throw new GatewayError('url_not_allowed', 'The image could not be fetched.', { param })
  const mimeType = essence(fetched.contentType)
  if (!mimeType.startsWith('image/')) throw invalidMedia(`The URL leads to ${mimeType}, not to an image.`, param)
  return { inlineData: { mimeType, data: fetched.bytes.toString('base64') } }
}

export function audio(part: Of<'input_audio'>, at: string): InlineData {
  const { data, format } = part.input_audio
  const mimeType = audioTypes[format.toLowerCase()]
  if (!mimeType)
    throw unsupported(`This model takes audio as ${Object.keys(audioTypes).join(', ')}.`, `${at}.input_audio.format`)
  // A `data:` URI is how DashScope takes it.
  const bytes = isDataUri(data) ? (readDataUri(data)?.data ?? null) : base64Of(data)
  if (bytes === null) throw invalidMedia('The audio must be base64.', `${at}.input_audio.data`)
  return { inlineData: { mimeType, data: bytes } }
}

/** A document: a PDF, or one of text as the text under its name. */
export function file(part: Of<'file'>, at: string): InlineData | { text: string } {
  const { file_data, filename } = part.file
  if (file_data === undefined)
    throw new GatewayError('missing_field', 'file_data is missing.', { param: `${at}.file.file_data` })
  const document = readDataUri(file_data)
  const text = document && textOfFile(document)
  if (text?.trim()) return { text: [filename, text].filter(Boolean).join('\n\n') }
  return inline(file_data, 'application/pdf', `${at}.file.file_data`)
}

/** A base64 data URI whose media type is `type`, or begins with it when it ends with a slash. */
function inline(uri: string, type: string, param: string): InlineData {
  const file = readDataUri(uri)
  if (!file) {
    throw invalidMedia(
      `Must be a base64 data URI (data:${type}…;base64,…)${type === 'image/' ? ' or an https URL' : ''}.`,
      param,
    )
  }
  const { mediaType: mimeType, data } = file
  const fits = type.endsWith('/') ? mimeType.startsWith(type) : mimeType === type
  if (!fits) throw unsupported(`The media type must be ${type}…, not ${mimeType || 'empty'}.`, param)
  return { inlineData: { mimeType, data } }
}

function isHttp(url: string): boolean {
  return /^https?:/i.test(url)
}

function essence(contentType: string): string {
  return contentType.split(';')[0]!.trim().toLowerCase()
}

function invalidMedia(message: string, param: string): GatewayError {
  return new GatewayError('invalid_request', message, { param })
}

function unsupported(message: string, param: string): GatewayError {
  return new GatewayError('unsupported_capability', message, { param })
}
