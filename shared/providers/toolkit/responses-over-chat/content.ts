import { isDataUri } from '../../../base/data-uri.ts'
import { isPart, type ResponsesPart } from '../../../kinds/responses.ts'
import type { Target } from '../../contract.ts'
import { textParts, type UserPart } from '../over-chat/user-parts.ts'
import { invalid, unsupported } from './refusals.ts'

type Content = string | readonly ResponsesPart[]
/** A part of a message or tool output, and its path in the request. */
export type LocatedPart = { part: ResponsesPart; param: string }
type Image = Extract<ResponsesPart, { type: 'input_image' }>
type File = Extract<ResponsesPart, { type: 'input_file' }>

export function locatedParts(content: Content, param: string): LocatedPart[] {
  if (typeof content === 'string') return [{ part: { type: 'input_text', text: content }, param }]
  return content.map((part, index) => ({ part, param: `${param}.${index}` }))
}

/** The text of a part; null for images, files and sounds. Throws a GatewayError 400 for a part of an unknown type. */
export function textOf({ part, param }: LocatedPart): string | null {
  if (isPart(part, 'input_text') || isPart(part, 'output_text')) return part.text
  if (isPart(part, 'refusal')) return part.refusal
  if (isPart(part, 'input_image') || isPart(part, 'input_file') || isPart(part, 'input_audio')) return null
  throw unsupported(`${param}.type`, `This model takes no content part of the type ${part.type.slice(0, 100)}.`)
}

/** The texts of a message that may have nothing else. */
export function textsOf(content: Content, param: string): string[] {
  const texts = locatedParts(content, param).map(located => {
    const text = textOf(located)
    if (text === null) throw invalid(`${located.param}.type`, 'Only user messages and tool outputs may have media.')
    return text
  })
  return texts.filter(text => text.trim() !== '')
}

/** The chat parts of a part of user content. Throws a GatewayError 400 for what the target does not take. */
export function userParts(located: LocatedPart, target: Target): UserPart[] {
  const text = textOf(located)
  if (text !== null) return textParts(text)
  const { part, param } = located
  if (isPart(part, 'input_image')) return [imagePart(part, param, target)]
  if (isPart(part, 'input_file')) return [filePart(part, param, target)]
  return isPart(part, 'input_audio') ? [{ type: 'input_audio', input_audio: part.input_audio }] : []
}

function imagePart({ image_url: url, file_id, detail }: Image, param: string, { model }: Target): UserPart {
  if (!model.input_modalities.includes('image')) throw unsupported(param, `${model.id} takes no images.`)
  if (url) return { type: 'image_url', image_url: { url, ...(detail && { detail }) } }
  throw missing('image_url', file_id, param)
}

function filePart(
  { file_data: data, file_url: url, file_id, filename }: File,
  param: string,
  { model }: Target,
): UserPart {
  if (!model.input_modalities.includes('file')) throw unsupported(param, `${model.id} takes no files.`)
  if (data) {
    const file_data = isDataUri(data) ? data : `data:application/pdf;base64,${data}`
    return { type: 'file', file: { file_data, filename: filename || 'document.pdf' } }
  }
  if (url) return { type: 'file', file: { file_data: url, filename: filename || 'document.pdf' } }
  throw missing('file_data', file_id, param)
}

function missing(field: string, fileId: string | null | undefined, param: string): Error {
  return fileId
    ? unsupported(`${param}.file_id`, `Uploaded files cannot be referred to: send the file itself in \`${field}\`.`)
    : invalid(`${param}.${field}`, `\`${field}\` is missing.`)
}
