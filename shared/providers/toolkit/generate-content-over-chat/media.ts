import { base64Of } from '../../../base/data-uri.ts'
import { GatewayError } from '../../../base/errors.ts'
import type { GeminiPart } from '../../../kinds/generate-content.ts'
import { fileKindOf } from '../../../kinds/generate-content-members.ts'
import type { Target } from '../../contract.ts'
import { textParts, type UserPart } from '../over-chat/user-parts.ts'

/** The names of formats of sounds in chat requests, by media types. */
const soundFormats: Record<string, string> = {
  'audio/wav': 'wav',
  'audio/x-wav': 'wav',
  'audio/wave': 'wav',
  'audio/mp3': 'mp3',
  'audio/mpeg': 'mp3',
  'audio/aac': 'aac',
  'audio/ogg': 'ogg',
  'audio/flac': 'flac',
  'audio/aiff': 'aiff',
}

/** The chat part of a file: an image, a sound, a PDF or a text. Throws a GatewayError 400 for any other. */
export function mediaPart({ inlineData, fileData }: GeminiPart, param: string, { model }: Target): UserPart[] {
  if (fileData) return linkedPart(fileData.fileUri, fileData.mimeType, `${param}.fileData`)
  const { mimeType, data: given } = inlineData!
  const at = `${param}.inlineData`
  // google-genai for Python writes the alphabet for URLs.
  const data = base64Of(given)
  if (data === null) throw new GatewayError('invalid_request', `${at}.data: must be base64.`, { param: `${at}.data` })
  const uri = `data:${mimeType};base64,${data}`
  switch (fileKindOf(mimeType)) {
    case 'image':
      return [{ type: 'image_url', image_url: { url: uri } }]
    case 'sound': {
      const format = soundFormats[essenceOf(mimeType)]
      if (!format) throw unsupported(`${at}.mimeType`, `must be one of ${Object.keys(soundFormats).join(', ')}`)
      return [{ type: 'input_audio', input_audio: { data, format } }]
    }
    case 'text':
      return textParts(Buffer.from(data, 'base64').toString())
    default:
      if (essenceOf(mimeType) !== 'application/pdf')
        throw unsupported(`${at}.mimeType`, `\`${model.id}\` takes images, sounds, PDFs and texts`)
      return [{ type: 'file', file: { file_data: uri, filename: nameOf(inlineData!) } }]
  }
}

function linkedPart(url: string, mimeType: string | undefined, at: string): UserPart[] {
  const kind = fileKindOf(mimeType)
  if (kind === 'image') return [{ type: 'image_url', image_url: { url } }]
  const isPdf = mimeType === undefined || essenceOf(mimeType) === 'application/pdf'
  if (kind === 'document' && isPdf) return [{ type: 'file', file: { file_data: url, filename: 'document.pdf' } }]
  throw unsupported(`${at}.mimeType`, 'send this file in `inlineData`')
}

function nameOf(file: object): string {
  const { displayName } = file as { displayName?: unknown }
  return typeof displayName === 'string' && displayName !== '' ? displayName : 'document.pdf'
}

function essenceOf(mimeType: string): string {
  return mimeType.split(';')[0]!.trim().toLowerCase()
}

function unsupported(param: string, message: string): GatewayError {
  return new GatewayError('unsupported_capability', `${param}: ${message}.`, { param })
}
