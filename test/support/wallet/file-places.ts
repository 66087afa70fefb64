import { isDeepStrictEqual } from 'node:util'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import { maxImageTokens } from '../../../shared/catalog/traits.ts'
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
const chats: [name: string, body: Json, root?: string][] = [
  ['system', chatting({ role: 'system', content: [{ type: 'text', text: 'x' }] })],
  ['developer', chatting({ role: 'developer', content: 'x', name: 'n' })],
  [
    'user text',
    chatting({ role: 'user', content: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }] }),
  ],
  ['user image', chatting({ role: 'user', content: [part('image_url', { url: files.image, detail: 'low' })] })],
  ['assistant', chatting({ role: 'assistant', content: [{ type: 'refusal', refusal: 'x' }], tool_calls: [tool] })],
  [
    'reasoning',
    chatting({ role: 'assistant', content: 'x', reasoning_details: [{ type: 'reasoning.text', text: 'x' }] }),
  ],
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

/** Whether a member of the sample is text for its provider, and no file. */
function isText(value: unknown): boolean {
  return typeof value === 'string' && !value.includes(mark)
}

/** Every file at every place of a sample. Text at the place of text stays text, whatever it says. */
export function casesOf(sample: Sample): Case[] {
  const { body, root, name } = sample
  return placesIn(read(body, root), root).flatMap(path =>
    Object.entries(forms).flatMap(([form, value]) => {
      if (typeof value === 'string' && isText(read(body, path))) return []
      return [[form, value] as const, [`list of ${form}`, [value]] as const].map(([label, placed]) => {
        return { name: `${name}: ${label} at ${path.join('.')}`, sample, body: place(body, path, placed) }
      })
    }),
  )
}

/** The most tokens that an image is billed as, by the catalog's rule of the model. */
const imageTokens = new Map(
  [openai, claude].map(id => {
    const catalog = loadCatalog()
    return [id, maxImageTokens(catalog.targets(catalog.find(id)!)[0]!)!]
  }),
)

export type Sent = { status: number; param: string | null; body: Json | null; reservedNano: number }

/** Sends a case and reads what is reserved while the provider answers it. */
export async function send(
  world: World,
  account: Account,
  { sample, body }: Pick<Case, 'sample' | 'body'>,
): Promise<Sent> {
  const { accounts } = world.gateway.services
  const reservedNano = async () => Number((await accounts.view(account.organisationId)).reservedNano)
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
    ...{ id: 'c1', object: 'chat.completion', created: 1, model: 'm', usage },
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  }),
  '/v1/responses': json(200, {
    ...{ id: 'r1', object: 'response', model: 'm', status: 'completed' },
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
  const tokens = count * imageTokens.get(sample.model)!
  const leastNano = expectedNano(sample.model, { prompt_tokens: tokens, completion_tokens: 0, total_tokens: tokens })
  return reservedNano >= leastNano ? null : `${name}: ${count} files sent, ${reservedNano} of ${leastNano} reserved`
}
