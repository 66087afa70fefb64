import type { ChatRequest } from '../../../../shared/kinds/chat.ts'
import { startAnthropicEmulator } from '../../../emulators/anthropic.ts'
import { type ChatProvider, startChatProvider } from '../../../emulators/chat-rules.ts'
import { type Emulator, json } from '../../../emulators/emulator.ts'
import { startGeminiEmulator } from '../../../emulators/gemini.ts'
import { readPages } from '../../../support/api/doc-examples.ts'
import { freshStores, type Gateway, type Stores, startGateway } from '../../../support/gateway.ts'
import {
  dialects,
  features,
  type MatrixDialect,
  type MatrixTarget,
  targets,
} from '../../../support/providers/matrix.ts'
import { test } from '../../../support/test.ts'

/** Every dialect at every provider, with what clients send; the emulators refuse what the providers refuse. */

let stores: Stores
let gateway: Gateway
let key: string
const emulators = new Map<string, Emulator>()

const kinds: Record<string, ChatProvider | 'anthropic' | 'gemini'> = {
  openai: 'openai',
  anthropic: 'anthropic',
  gemini: 'gemini',
  groq: 'groq',
  mistral: 'mistral',
  deepseek: 'deepseek',
  xai: 'xai',
  moonshot: 'moonshot',
  alibaba: 'alibaba',
  cerebras: 'cerebras',
  openrouter: 'lenient',
  together: 'lenient',
  fireworks: 'fireworks',
}

test.before(async () => {
  stores = await freshStores()
  const env: Record<string, string> = {}
  for (const [name, kind] of Object.entries(kinds)) {
    const emulator =
      kind === 'anthropic'
        ? await startAnthropicEmulator()
        : kind === 'gemini'
          ? await startGeminiEmulator()
          : await startChatProvider(kind)
    emulators.set(name, emulator)
    env[`${name.toUpperCase()}_API_KEY`] = 'upstream-secret'
    const hasOwnPath = kind === 'anthropic' || kind === 'gemini'
    env[`${name.toUpperCase()}_BASE_URL`] = hasOwnPath ? emulator.url : `${emulator.url}/v1`
  }
  gateway = await startGateway(stores, env)
  key = (await gateway.account({ usd: '1000' })).live
})
test.after.always(async () => {
  await gateway?.close()
  await Promise.all([...emulators.values()].map(emulator => emulator.close()))
  await stores?.drop()
})

const path = { chat: '/v1/chat/completions', messages: '/v1/messages', responses: '/v1/responses' } as const

for (const target of targets)
  for (const dialect of dialects)
    test.serial(`${dialect} at ${target.provider} (${target.model})`, async t => {
      const { requests } = emulatorOf(target)
      for (const [name, feature] of Object.entries(features)) {
        const body = feature.body(dialect, target)
        if (body === null) continue
        const about = `${name} in ${dialect} at ${target.provider}`
        requests.length = 0
        const answer = await ask(dialect, { ...body, provider: { only: [target.provider] } })
        const text = await answer.text()
        const isRefusal = feature.isRefused?.(target) ?? false
        t.is(answer.status, isRefusal ? 400 : 200, `${about}: ${text}`)
        t.is(requests.length, isRefusal ? 0 : 1, about)
        if (isRefusal) t.regex(text, /unsupported_capability|capability_rejected/, about)
        else t.false(text.includes('"error":{'), `${about}: ${text}`)
        if (dialect !== 'chat') t.false(text.includes('response_format'), `${about}: ${text}`)
        if (feature.answer) t.true(text.includes(feature.answer(body)), `${about}: ${text}`)
        for (const { body: sent } of requests) t.deepEqual(strayResults(sent), [], about)
      }
    })

/** More failures than a request makes attempts. */
const failures = Array.from({ length: 20 }, () =>
  json(503, { error: { message: 'overloaded', type: 'server_error', code: null } }),
)

/** Each ordered pair of providers, in one dialect each: the first fails in a conversation that it began. */
for (const [row, from] of targets.entries())
  test.serial(
    `failover from ${from.provider} (${from.model}) to every other provider keeps the conversation valid`,
    async t => {
      for (const [column, to] of targets.entries()) {
        if (to.provider === from.provider) continue
        const dialect = dialects[(row + column) % dialects.length]!
        const about = `${dialect} from ${from.provider} to ${to.provider}`
        const names = [from.provider, to.provider]
        // Its success ends the run of failures that would open the circuit.
        const begun = await ask(dialect, {
          ...features.plain!.body(dialect, from),
          provider: { only: [from.provider] },
        })
        t.is(begun.status, 200, `${about}: ${await begun.text()}`)
        for (const one of [from, to]) emulatorOf(one).reset()
        emulatorOf(from).next(...failures)
        const body = { ...features['tools, twice round']!.body(dialect, from), models: [to.model] }
        const answer = await ask(dialect, { ...body, provider: { only: names, order: names } })
        t.is(answer.status, 200, `${about}: ${await answer.text()}`)
        t.is(answer.headers.get('x-gateway-provider'), to.provider, about)
        t.true(emulatorOf(from).requests.length > 0, about)
        t.is(emulatorOf(to).requests.length, 1, about)
        t.deepEqual(strayResults(emulatorOf(to).requests[0]!.body), [], about)
        emulatorOf(from).reset()
      }
    },
  )

/** The requests that docs/chat.md shows as curl commands. */
const examples = readPages()
  .find(({ path }) => path === 'docs/chat.md')!
  .blocks.flatMap(({ where, code }) => {
    const body = /-d '(\{[\s\S]*\})'/.exec(code)?.[1]
    return body ? [{ where, body: JSON.parse(body) as ChatRequest }] : []
  })

for (const target of targets)
  test.serial(
    `200, or a refusal that names the capability, for the documented examples at ${target.provider} (${target.model})`,
    async t => {
      t.true(examples.length >= 5)
      for (const { where, body } of examples) {
        const { model } = target
        const answer = await ask('chat', { ...body, model, provider: { only: [target.provider] } })
        const text = await answer.text()
        t.is(answer.status, isLacking(body, target) ? 400 : 200, `${where} at ${target.provider}: ${text}`)
        if (answer.status === 400) t.regex(text, /unsupported_capability/)
      }
    },
  )

function isLacking({ modalities, messages }: ChatRequest, { lacks }: MatrixTarget): boolean {
  const makesImages = modalities?.includes('image') === true
  const shows = messages.some(
    ({ content }) => Array.isArray(content) && content.some(({ type }) => type === 'image_url'),
  )
  return makesImages || (shows && lacks?.includes('image')) || false
}

function ask(dialect: MatrixDialect, body: object): Promise<Response> {
  return gateway.fetch(path[dialect], { key, body })
}

function emulatorOf({ provider }: MatrixTarget): Emulator {
  return emulators.get(provider)!
}

type Sent = { tool_calls?: { id: string }[]; tool_call_id?: string; type?: string; call_id?: string }

/** The ids of results without a call before, in the messages or items that a provider of OpenAI's dialect received. */
function strayResults({ messages, input }: { messages?: Sent[]; input?: Sent[] | string }): string[] {
  const called = new Set<string | undefined>()
  const stray: string[] = []
  for (const { tool_calls: calls, tool_call_id: result, type, call_id: item } of messages ??
    (Array.isArray(input) ? input : [])) {
    for (const { id } of calls ?? []) called.add(id)
    const id = result ?? (type?.endsWith('_output') ? item : undefined)
    if (type?.endsWith('_call')) called.add(item)
    if (id !== undefined && !called.has(id)) stray.push(id)
  }
  return stray
}
