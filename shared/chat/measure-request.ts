import { decideUnderPolicy } from '../engine/admit-request.ts'
import type { RunServices } from '../engine/base-run.ts'
import type { SlotOwner } from '../io/fair-slots.ts'
import { measureDocument, measureSound } from '../io/media/measure.ts'
import type { DocumentSize } from '../io/media/pdf.ts'
import type { ChatMessage, ChatRequest } from '../kinds/chat.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { MessagesRequest } from '../kinds/messages.ts'
import type { Platform } from '../platform.ts'
import type { Features } from '../routing/features.ts'
import { snapshotOf } from '../routing/options.ts'
import { route } from '../routing/router.ts'
import { fetchDocuments, totalSize } from './documents.ts'
import { measureMessages } from './measure-messages.ts'
import type { ChatRunInput } from './run-input.ts'

const base64Uri = /^data:[^,;]{1,100}(?:;[^,;]{1,100})*;base64,/i

type UserPart = Exclude<Extract<ChatMessage, { role: 'user' }>['content'], string>[number]
type LocatedPart = { part: UserPart; param: string }

/**
 * Measures the audio and the documents of a request, so that its `features` reflect their cost, and returns the request
 * to send: documents behind a URL are fetched and inlined, so that the provider receives what was measured. Those of
 * other kinds than chat and Messages keep an unknown size. Throws 400 `url_not_allowed`,
 * `invalid_request`, 413.
 */
export async function measureRequest<K extends DirectKind>(
  services: Pick<Platform, 'urlPolicy'>,
  kind: K,
  body: DirectKinds[K]['request'],
  features: Features,
  owner: SlotOwner,
): Promise<DirectKinds[K]['request']> {
  if (!hasMeasured(kind, features)) return body
  return kind === 'messages'
    ? measureMessages(services, body as MessagesRequest, features, owner)
    : measureChat(services, body as ChatRequest, features, owner)
}

async function measureChat(
  services: Pick<Platform, 'urlPolicy'>,
  body: ChatRequest,
  features: Features,
  owner: SlotOwner,
): Promise<ChatRequest> {
  const inlined = features.inputs.file ? await inlineDocuments(services, body) : body
  await measureInline(inlined, features, owner)
  return inlined
}

/** Whether a live chat or Messages request has content that has to be measured. */
export function needsMeasuring<K extends DirectKind>({ key, kind, features }: ChatRunInput<K>): boolean {
  return hasMeasured(kind, features) && key.policy.environment === 'live'
}

function hasMeasured(kind: DirectKind, { inputs }: Features): boolean {
  return (kind === 'chat' || kind === 'messages') && (inputs.audio || inputs.file)
}

/**
 * Measures a request that needs it, unless its key does not allow it or it cannot be routed. Also throws what routing and
 * the key's policy throw.
 */
export async function measureIfAllowed<K extends DirectKind>(
  services: RunServices,
  input: ChatRunInput<K>,
  marginPpm: bigint,
): Promise<ChatRunInput<K>> {
  const { key, kind, body, features } = input
  const world = snapshotOf(services, marginPpm)
  await decideUnderPolicy(services, key, policy => route(world, { policy, kind, request: body, features }))
  const measured = await measureRequest(services, kind, body, features, key.policy)
  // Measuring takes time, so the cached policy may be outdated.
  key.forget()
  return measured === body ? input : { ...input, body: measured as typeof body, raw: null }
}

/** The same without fetching: documents behind a URL keep an unknown size. */
export async function measureInline(body: ChatRequest, features: Features, owner: SlotOwner): Promise<void> {
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
    documents: totalSize(documents),
  }
}

function sum(values: (number | null)[]): number | null {
  return values.reduce((total, value) => (total === null || value === null ? null : total + value), 0)
}

async function documentSize(data: string | undefined, owner: SlotOwner): Promise<DocumentSize | null> {
  const [head] = base64Uri.exec(data?.slice(0, 1_000) ?? '') ?? []
  return head === undefined ? null : measureDocument(Buffer.from(data!.slice(head.length), 'base64'), owner)
}

function userParts({ messages }: ChatRequest): LocatedPart[] {
  return messages.flatMap((message, i) =>
    message.role === 'user' && typeof message.content !== 'string'
      ? message.content.map((part, j) => ({ part, param: `messages.${i}.content.${j}` }))
      : [],
  )
}

async function inlineDocuments(services: Pick<Platform, 'urlPolicy'>, body: ChatRequest): Promise<ChatRequest> {
  const remote = userParts(body).filter(
    ({ part }) => part.type === 'file' && /^https?:/i.test(part.file.file_data ?? ''),
  )
  if (remote.length === 0) return body
  const urls = remote.flatMap(({ part, param }) =>
    part.type === 'file' ? { url: part.file.file_data!, param: `${param}.file.file_data` } : [],
  )
  const files = await fetchDocuments(services, urls)
  const inlined = new Map(
    remote.map(({ part }, i): [UserPart, UserPart] => {
      const { contentType, bytes } = files[i]!
      const file_data = `data:${contentType};base64,${bytes.toString('base64')}`
      return [part, part.type === 'file' ? { ...part, file: { ...part.file, file_data } } : part]
    }),
  )
  const messages = body.messages.map(message =>
    message.role === 'user' && typeof message.content !== 'string'
      ? { ...message, content: message.content.map(part => inlined.get(part) ?? part) }
      : message,
  )
  return { ...body, messages }
}
