import test from 'ava'
import { startAnthropicEmulator } from '../../emulators/anthropic.ts'
import { type ChatProvider, startChatProvider } from '../../emulators/chat-rules.ts'
import { type Emulator, json } from '../../emulators/emulator.ts'
import { startGeminiEmulator } from '../../emulators/gemini.ts'
import { freshStores, type Gateway, type Stores, startGateway } from '../../support/gateway.ts'
import { dialects, features, type MatrixTarget, targets } from '../../support/providers/matrix.ts'

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
  openrouter: 'lenient',
  together: 'lenient',
  fireworks: 'lenient',
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
      for (const [name, feature] of Object.entries(features)) {
        const body = feature.body(dialect, target)
        if (body === null) continue
        const about = `${name} in ${dialect} at ${target.provider}`
        const answer = await gateway.fetch(path[dialect], {
          key,
          body: { ...body, provider: { only: [target.provider] } },
        })
        const text = await answer.text()
        const isRefusal = feature.isRefused?.(target) ?? false
        t.is(answer.status, isRefusal ? 400 : 200, `${about}: ${text}`)
        if (isRefusal) t.regex(text, /unsupported_capability|capability_rejected/, about)
        else t.false(text.includes('"error":{'), `${about}: ${text}`)
      }
    })

/** Each ordered pair of providers: the first fails in the middle of a conversation that it began. */
for (const from of targets)
  test.serial(
    `failover from ${from.provider} (${from.model}) to every other provider keeps the conversation valid`,
    async t => {
      for (const to of targets.filter(({ provider }) => provider !== from.provider))
        for (const dialect of dialects) {
          const body = { ...features['tools, twice round']!.body(dialect, from), models: [to.model] }
          emulatorOf(from).next(json(503, { error: { message: 'overloaded', type: 'server_error', code: null } }))
          const provider = { only: [from.provider, to.provider] }
          const answer = await gateway.fetch(path[dialect], { key, body: { ...body, provider } })
          const text = await answer.text()
          const about = `${dialect} from ${from.provider} to ${to.provider}: ${text}`
          t.is(answer.status, 200, about)
          t.is(answer.headers.get('x-gateway-provider'), to.provider, about)
          emulatorOf(from).reset()
        }
    },
  )

function emulatorOf({ provider }: MatrixTarget): Emulator {
  return emulators.get(provider)!
}
