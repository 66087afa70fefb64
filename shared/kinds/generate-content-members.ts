import { asText } from '../base/as-text.ts'
import { alike, type FileRule, type MemberTables, type Rule } from './member-reader.ts'

/**
 * The members of contents and parts that may be sent, and what a provider reads in each: the types of Google's SDK
 * (@google/genai, `Part`).
 */

const imageBytes: FileRule = { file: 'image', form: 'base64', forUrls: true }
const soundBytes: FileRule = { file: 'sound', form: 'base64', forUrls: true }
/** Also videos, whose size is not measured. */
const documentBytes: FileRule = { file: 'document', form: 'base64', forUrls: true }
const imageLink: FileRule = { file: 'image', form: 'link' }
const soundLink: FileRule = { file: 'sound', form: 'link' }
const documentLink: FileRule = { file: 'document', form: 'link' }

/** The kind of a file by its media type; `text` is read as text, which costs no more than its bytes. */
export function fileKindOf(mimeType: unknown): 'image' | 'sound' | 'text' | 'document' {
  const type = asText(mimeType ?? '').toLowerCase()
  if (type.startsWith('image/')) return 'image'
  if (type.startsWith('audio/')) return 'sound'
  return type.startsWith('text/') || type === 'application/json' ? 'text' : 'document'
}

const bytes: Rule = ({ mimeType }) =>
  ({ image: imageBytes, sound: soundBytes, text: 'text' as const, document: documentBytes })[fileKindOf(mimeType)]

/** A file in the operator's account, or one that only Google's own services read: its size is not known. */
const ownFile = /^(?!https:\/\/)|^https:\/\/(?:[\w-]+\.)*(?:googleapis\.com|youtube\.com|youtu\.be)\//i

/** Whether a file is behind a public URL. */
function isPublicFile(uri: string): boolean {
  return !ownFile.test(uri)
}

const link: Rule = ({ mimeType, fileUri }) => {
  if (typeof fileUri === 'string' && !isPublicFile(fileUri)) return 'stored'
  return { image: imageLink, sound: soundLink, text: documentLink, document: documentLink }[fileKindOf(mimeType)]
}

const files = {
  inlineData: alike('mimeType displayName', { data: bytes }),
  fileData: alike('mimeType displayName', { fileUri: link }),
}

const parts = alike('text thought thoughtSignature', {
  ...files,
  functionCall: alike('id name willContinue', { args: 'json', partialArgs: 'json' }),
  functionResponse: alike('id name willContinue scheduling', { response: 'json', parts: alike('', files) }),
  executableCode: alike('id language code'),
  codeExecutionResult: alike('id outcome output'),
  videoMetadata: alike('startOffset endOffset fps'),
  mediaResolution: alike('level numTokens'),
  mediaProcessing: 'json',
  speechMetadata: 'json',
  toolCall: 'json',
  toolResponse: 'json',
  partMetadata: 'json',
})
const contents = alike('role', { parts })

const tools = alike('', {
  functionDeclarations: alike('name description behavior', {
    parameters: 'json',
    parametersJsonSchema: 'json',
    response: 'json',
    responseJsonSchema: 'json',
  }),
  googleSearch: 'json',
  codeExecution: 'json',
  urlContext: 'json',
  computerUse: 'json',
})

export const generateContentMemberTables: MemberTables = { systemInstruction: contents, contents, tools }
