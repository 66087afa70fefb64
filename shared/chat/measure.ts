import { GatewayError } from '../base/errors.ts'
import { measureDocument, measureSound } from '../io/measure.ts'
import type { DocumentSize } from '../io/pdf.ts'
import { fetchPublic } from '../io/safe-url.ts'
import type { ChatMessage, ChatRequest } from '../kinds/chat.ts'
import type { Features } from '../kinds/features.ts'
import type { Services } from '../services.ts'

const maxDocuments = 16
const maxBytes = 32 * 1024 * 1024
const timeoutMs = 15_000
const base64Uri = /^data:[^,;]{1,100}(?:;[^,;]{1,100})*;base64,/i

type UserPart = Exclude<Extract<ChatMessage, { role: 'user' }>['content'], string>[number]
type Placed = { part: UserPart; param: string }

/**
 * Measures the sound and the documents of a chat request, so that its `features` say what they can cost, and gives the request
 * as it is to be sent: documents behind a URL are fetched and put in, so that what was measured is what the provider gets.
 * `owner`: the organisation. Throws 400 `url_not_allowed`, `invalid_request`, 413.
 */
export async function measureRequest(
  services: Pick<Services, 'door'>,
  body: ChatRequest,
  features: Features,
  owner: string,
): Promise<ChatRequest> {
  if (!features.inputs.audio && !features.inputs.file) return body
  const inlined = features.inputs.file ? await inlineDocuments(services, body) : body
  await measureInline(inlined, features, owner)
  return inlined
}

/** The same without fetching: the size of what is behind a URL stays unknown. */
export async function measureInline(body: ChatRequest, features: Features, owner: string): Promise<void> {
  const parts = userParts(body).map(({ part }) => part)
  const sounds = parts.filter(part => part.type === 'input_audio').map(part => part.input_audio.data)
  const files = parts.filter(part => part.type === 'file').map(part => part.file.file_data)
  const [soundsMs, documents] = await Promise.all([
    Promise.all(sounds.map(data => measureSound(Buffer.from(data, 'base64'), owner))),
    Promise.all(files.map(data => documentSize(data, owner))),
  ])
  features.media = {
    ...features.media,
    soundMs: sum(soundsMs),
    documents: documents.every(size => size !== null)
      ? {
          pages: sum(documents.map(({ pages }) => pages))!,
          textBytes: sum(documents.map(({ textBytes }) => textBytes))!,
        }
      : null,
  }
}

function sum(values: (number | null)[]): number | null {
  return values.reduce((total, value) => (total === null || value === null ? null : total + value), 0)
}

async function documentSize(data: string | undefined, owner: string): Promise<DocumentSize | null> {
  const [head] = base64Uri.exec(data?.slice(0, 1_000) ?? '') ?? []
  return head === undefined ? null : measureDocument(Buffer.from(data!.slice(head.length), 'base64'), owner)
}

function userParts({ messages }: ChatRequest): Placed[] {
  return messages.flatMap((message, i) =>
    message.role === 'user' && typeof message.content !== 'string'
      ? message.content.map((part, j) => ({ part, param: `messages.${i}.content.${j}` }))
      : [],
  )
}

async function inlineDocuments({ door }: Pick<Services, 'door'>, body: ChatRequest): Promise<ChatRequest> {
  const remote = userParts(body).filter(
    ({ part }) => part.type === 'file' && /^https?:/i.test(part.file.file_data ?? ''),
  )
  if (remote.length === 0) return body
  if (remote.length > maxDocuments) {
    const message = `At most ${maxDocuments} documents can be sent by URL; send the others as data: URIs.`
    throw new GatewayError('invalid_request', message, { param: remote[maxDocuments]!.param })
  }
  let bytesLeft = maxBytes
  const inlined = new Map<UserPart, UserPart>()
  for (const { part, param } of remote) {
    if (part.type !== 'file') continue
    const rules = { ...door, maxBytes: bytesLeft, timeoutMs, param: `${param}.file.file_data` }
    const { contentType, bytes } = await fetchPublic(part.file.file_data!, rules)
    bytesLeft -= bytes.length
    const [type] = contentType.split(';')
    const file_data = `data:${type!.trim() || 'application/octet-stream'};base64,${bytes.toString('base64')}`
    inlined.set(part, { ...part, file: { ...part.file, file_data } })
  }
  const messages = body.messages.map(message =>
    message.role === 'user' && typeof message.content !== 'string'
      ? { ...message, content: message.content.map(part => inlined.get(part) ?? part) }
      : message,
  )
  return { ...body, messages }
}
