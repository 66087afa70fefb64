import { isDeepStrictEqual } from 'node:util'
import { GatewayError } from '../../../shared/base/errors.ts'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import { maxImageTokens } from '../../../shared/catalog/traits.ts'
import { chatRequest } from '../../../shared/kinds/chat.ts'
import type { DirectKind } from '../../../shared/kinds/index.ts'
import { messagesRequest } from '../../../shared/kinds/messages.ts'
import { responsesRequest } from '../../../shared/kinds/responses.ts'
import { anthropic } from '../../../shared/providers/adapters/anthropic/protocol.ts'
import { openai as openaiDialect } from '../../../shared/providers/adapters/openai/protocol.ts'
import type { Target } from '../../../shared/providers/contract.ts'
import { listedRequest } from '../../../shared/routing/listed-request.ts'
import { promptTokensBound } from '../../../shared/routing/pricing.ts'
import { requestFormatOf } from '../../../shared/routing/request-formats.ts'
import { messageReply } from '../../emulators/anthropic.ts'
import { json, type Recorded, type Reply } from '../../emulators/emulator.ts'
import { expectedNano, type World } from '../chat/gateway.ts'
import { type Account, eventually } from '../gateway.ts'
import { anyJson, blocks, files, items, mark } from './file-samples.ts'

type Json = Record<string, unknown>
type Path = readonly (string | number)[]

/** A request that is accepted, whose places under `root` are tried. */
export type Sample = { name: string; route: Route; model: string; body: Json; root: Path }
type Route = '/v1/chat/completions' | '/v1/responses' | '/v1/messages'
/** A sample with a file at a place. */
export type Case = { name: string; sample: Sample; body: Json }

const hi = { role: 'user', content: 'Hi' }
const openai = 'gpt-4o-mini'
const claude = 'claude-opus-4-6'

function asking(item: unknown): Json {
  return { model: openai, max_output_tokens: 16, provider: { only: ['openai'] }, input: [item, hi] }
}

function telling(block: unknown): Json {
  const messages = [{ role: 'user', content: [block, { type: 'text', text: 'Hi' }] }]
  return { model: claude, max_tokens: 16, provider: { only: ['anthropic'] }, messages }
}

function chatting(message: unknown, more: Json = {}): Json {
  return { model: openai, max_tokens: 16, provider: { only: ['openai'] }, messages: [hi, message], ...more }
}

const part = (type: string, content: unknown) => ({ type, [type]: content })
const tool = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } }
const detail = { type: 'reasoning.text', text: 'x', summary: 'x', data: 'x', signature: 'x', format: 'x' }
const chats: [name: string, body: Json, root?: string][] = [
  ['system', chatting({ role: 'system', content: [{ type: 'text', text: 'x' }] })],
  ['developer', chatting({ role: 'developer', content: 'x', name: 'n' })],
  [
    'user text',
    chatting({ role: 'user', content: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }] }),
  ],
  ['user image', chatting({ role: 'user', content: [part('image_url', { url: files.image, detail: 'low' })] })],
  ['assistant', chatting({ role: 'assistant', content: [{ type: 'refusal', refusal: 'x' }], tool_calls: [tool] })],
  ['reasoning', chatting({ role: 'assistant', content: 'x', reasoning_details: [detail] })],
  ['old call', chatting({ role: 'assistant', content: 'x', function_call: { name: 'f', arguments: '{}' } })],
  ['tool', chatting({ role: 'tool', tool_call_id: 'c1', content: [{ type: 'text', text: 'x' }] })],
  ['function', chatting({ role: 'function', name: 'f', content: 'x' })],
  [
    'prediction',
    chatting(hi, { prediction: { type: 'content', content: [{ type: 'text', text: 'x' }] } }),
    'prediction',
  ],
  ['tools', chatting(hi, { tools: [{ type: 'function', function: { name: 'f', parameters: anyJson } }] }), 'tools'],
]

const system = [{ type: 'text', text: 'x' }]
const tools = [{ name: 'f', description: 'x', input_schema: anyJson, input_examples: anyJson }]
const functions = [{ type: 'function', name: 'f', description: 'x', parameters: anyJson, strict: false }]

/** Every kind of item, block and message of the three dialects. */
export const samples: readonly Sample[] = [
  ...chats.map(([name, body, root]): Sample => {
    return {
      name: `chat ${name}`,
      route: '/v1/chat/completions',
      model: openai,
      body,
      root: root ? [root] : ['messages', 1],
    }
  }),
  ...Object.entries(items).flatMap(([type, list]) =>
    list.map((item, i): Sample => {
      return {
        name: `item ${type} ${i}`,
        route: '/v1/responses',
        model: openai,
        body: asking(item),
        root: ['input', 0],
      }
    }),
  ),
  {
    name: 'tools of Responses',
    route: '/v1/responses',
    model: openai,
    body: { ...asking(hi), tools: functions },
    root: ['tools'],
  },
  ...Object.entries(blocks).flatMap(([type, list]) =>
    list.map((block, i): Sample => {
      const root = ['messages', 0, 'content', 0]
      return { name: `block ${type} ${i}`, route: '/v1/messages', model: claude, body: telling(block), root }
    }),
  ),
  { name: 'a message', route: '/v1/messages', model: claude, body: telling(system[0]), root: ['messages', 0] },
  { name: 'system', route: '/v1/messages', model: claude, body: { ...telling(system[0]), system }, root: ['system'] },
  {
    name: 'tools of Messages',
    route: '/v1/messages',
    model: claude,
    body: { ...telling(system[0]), tools },
    root: ['tools'],
  },
]

/** Files as text, as parts and blocks of each dialect, and stored at the provider. */
const forms: Record<string, unknown> = {
  image: files.image,
  'image bytes': files.imageBytes,
  link: files.link,
  document: files.document,
  'document bytes': files.documentBytes,
  sound: files.sound,
  'raw bytes': files.raw,
  'chat image': part('image_url', { url: files.image }),
  'chat sound': part('input_audio', { data: files.sound, format: 'wav' }),
  'chat file': part('file', { filename: 'a.pdf', file_data: files.document }),
  video: part('video_url', { url: files.link }),
  'input image': { type: 'input_image', image_url: files.image },
  'input file': { type: 'input_file', file_data: files.document },
  block: { type: 'image', source: { type: 'base64', media_type: 'image/png', data: files.imageBytes } },
  'block by link': { type: 'image', source: { type: 'url', url: files.link } },
  'video block': { type: 'video', source: { type: 'base64', media_type: 'video/mp4', data: files.raw } },
  'document block': {
    type: 'document',
    source: { type: 'base64', media_type: 'application/pdf', data: files.documentBytes },
  },
  stored: { type: 'input_image', file_id: `file-${mark}` },
}
/** Names of members that an object may be given. */
const added = ['image_url', 'url', 'source', 'data', 'result', 'content', 'output', 'images', 'file_data', 'extra']

const read = (body: unknown, path: Path) => path.reduce((value, name) => (value as Json)[name], body)

/** The body with another value at a path; what is there already is replaced. */
function place(body: Json, path: Path, value: unknown): Json {
  const copy = structuredClone(body)
  const holder = read(copy, path.slice(0, -1)) as Json
  holder[path.at(-1)!] = value
  return copy
}

/** The paths where a file can be: each member, each new member of an object, and behind the last element of a list. */
function placesIn(value: unknown, path: Path): Path[] {
  if (typeof value !== 'object' || value === null || isDeepStrictEqual(value, anyJson)) return []
  const inner = Object.entries(value).flatMap(([name, member]) => {
    const at = [...path, Array.isArray(value) ? Number(name) : name]
    return isDeepStrictEqual(member, anyJson) ? [] : [at, ...placesIn(member, at)]
  })
  if (Array.isArray(value)) return [...inner, [...path, value.length]]
  return [...inner, ...added.filter(name => !(name in value)).map(name => [...path, name])]
}

/** Whether a string at a place is text for its provider: where the sample has text or another scalar, or parts. */
function takesText(body: Json, path: Path): boolean {
  const [value, holder] = [read(body, path), read(body, path.slice(0, -1))]
  if (isTexts(value) || isTexts(holder)) return true
  if (typeof value === 'object') return ['content', 'output'].includes(String(path.at(-1)))
  return value !== undefined && !String(value).includes(mark)
}

const isTexts = (value: unknown) =>
  Array.isArray(value) && value.length > 0 && value.every(one => typeof one === 'string')

/** Every file at every place of a sample. Text at the place of text stays text, whatever it says. */
export function casesOf(sample: Sample): Case[] {
  const { body, root, name } = sample
  return placesIn(read(body, root), root).flatMap(path =>
    Object.entries(forms).flatMap(([form, value]) => {
      // Ids in them are text.
      if (form === 'stored' && path.some(name => ['annotations', 'citations', 'results'].includes(String(name))))
        return []
      if (typeof value === 'string' && takesText(body, path)) return []
      return [[form, value] as const, [`list of ${form}`, [value]] as const].map(([label, placed]) => {
        return { name: `${name}: ${label} at ${path.join('.')}`, sample, body: place(body, path, placed) }
      })
    }),
  )
}

const catalog = loadCatalog()

function targetOf(id: string): Target {
  const model = catalog.find(id)!
  return { model, ...catalog.targets(model)[0]! }
}

/** What tokens of a prompt cost. */
function nanoOf(model: string, tokens: number): number {
  return expectedNano(model, { prompt_tokens: tokens, completion_tokens: 0, total_tokens: tokens })
}

/** What became of a case. */
export type Sent = { status: number; param: string | null; body: Json | null; reservedNano: number }

const kinds = {
  '/v1/chat/completions': { kind: 'chat', schema: chatRequest, adapter: openaiDialect.direct.chat! },
  '/v1/responses': { kind: 'responses', schema: responsesRequest, adapter: openaiDialect.direct.responses! },
  '/v1/messages': { kind: 'messages', schema: messagesRequest, adapter: anthropic.direct.messages! },
} as const

/** The same without a gateway: what its parts would reserve and send. */
export function translate({ sample: { route, model }, body: asked }: Pick<Case, 'sample' | 'body'>): Sent {
  const { kind, schema, adapter } = kinds[route]
  const { provider: _, ...body } = asked
  const parsed = schema.safeParse(body)
  const refused = (param: string | null) => ({ status: 400, param, body: null, reservedNano: 0 })
  if (!parsed.success) return refused(parsed.error.issues[0]!.path.join('.'))
  const raw = Buffer.from(JSON.stringify(body))
  const features = requestFormatOf(kind).readFeatures(parsed.data as never, raw.length)
  const target = targetOf(model)
  try {
    const listed = listedRequest<DirectKind>({ kind, body: parsed.data as never, raw }, features)
    const call = { target, body: listed.body as never, raw: listed.raw, maxTokens: null, media: new Map() }
    const request = adapter.request(call)
    const tokens = promptTokensBound(features, target)
    return { status: 200, param: null, body: JSON.parse(String(request.body)), reservedNano: nanoOf(model, tokens) }
  } catch (error) {
    if (error instanceof GatewayError) return refused(error.param)
    throw error
  }
}

/** Sends a case and reads what is reserved while the provider answers it. */
export async function send(
  world: World,
  account: Account,
  { sample, body }: Pick<Case, 'sample' | 'body'>,
): Promise<Sent> {
  const { wallets } = world.gateway.services
  const reservedNano = async () => Number((await wallets.view(account.organisationId)).reservedNano)
  await eventually(async () => (await reservedNano()) === 0, 'the case before is settled')
  const upstream = sample.route === '/v1/messages' ? world.anthropic : world.openai
  let reserved = 0
  upstream.reset()
  upstream.next(async (request, response) => {
    reserved = await reservedNano()
    return replies[sample.route](request, response)
  })
  const answer = await world.gateway.fetch(sample.route, { key: account.live, body })
  const { error } = (await answer.json()) as { error?: { param: string | null } }
  const sent: Recorded | undefined = upstream.requests[0]
  return { status: answer.status, param: error?.param ?? null, body: sent?.body ?? null, reservedNano: reserved }
}

const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
const replies: Record<Route, Reply> = {
  '/v1/chat/completions': json(200, {
    id: 'c1',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    usage,
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  }),
  '/v1/responses': json(200, {
    id: 'r1',
    object: 'response',
    model: 'm',
    status: 'completed',
    output: [{ type: 'message', content: [{ type: 'output_text', text: 'Hi' }] }],
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
  }),
  '/v1/messages': messageReply({ usage: { input_tokens: 1, output_tokens: 1 } }),
}

/** What is wrong with how a case was treated; null for nothing: its files were reserved, not sent, or refused by name. */
export function faultOf({ sample, name }: Case, { status, param, body, reservedNano }: Sent): string | null {
  if (status >= 500) return `${name}: ${status}`
  if (!body) return status >= 400 && (status !== 400 || param) ? null : `${name}: ${status} without a field`
  const count = JSON.stringify(body).split(mark).length - 1
  const leastNano = nanoOf(sample.model, count * maxImageTokens(targetOf(sample.model))!)
  return reservedNano >= leastNano ? null : `${name}: ${count} files sent, ${reservedNano} of ${leastNano} reserved`
}
