import { anthropicReply } from '../../emulators/anthropic.ts'
import type { Emulator, Reply } from '../../emulators/emulator.ts'
import { geminiReply } from '../../emulators/gemini.ts'
import { reply as openAiReply } from '../../emulators/openai.ts'
import { openAiAudio } from '../../emulators/openai-audio.ts'
import { openAiImages } from '../../emulators/openai-images.ts'
import { chargedNano, startWorld } from '../../support/chat/gateway.ts'
import { type Account, eventually } from '../../support/gateway.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

let account: Account

const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '', LOG_LEVEL: 'fatal' }))
test.beforeEach(async () => {
  account = await world.gateway.account({ usd: '10' })
})

/** What a server may state: nothing, more than any context, than a column, than an exact number; and no whole number. */
const monsters = ['0', '20000000', '2147483648', '1e15', '1e19', '1e300', '1e999', '-5', '0.5', '"7"'] as const
const counts = /"((?!max_)\w*tokens|\w+TokenCount|web_search_requests|num_requests)":\s*\d+/g

/** A reply in which each number of tokens is another. */
function inflated(inner: Reply, count: string): Reply {
  return (request, response) => {
    const replace = (chunk: unknown) =>
      typeof chunk === 'string' ? chunk.replaceAll(counts, (_, name) => `"${name}":${count}`) : chunk
    const [write, end] = [response.write.bind(response), response.end.bind(response)]
    response.write = ((chunk: unknown, ...rest: []) => write(replace(chunk) as string, ...rest)) as typeof write
    response.end = ((chunk: unknown, ...rest: []) => end(replace(chunk) as string, ...rest)) as typeof end
    return inner(request, response)
  }
}

const said = [{ role: 'user', content: 'Hello gateway' }]
const chat = (model: string) => ({ path: '/v1/chat/completions', body: { model, messages: said, max_tokens: 50 } })
const messages = (model: string) => ({ path: '/v1/messages', body: { model, messages: said, max_tokens: 50 } })
const responses = (model: string) => ({
  path: '/v1/responses',
  body: { model, input: 'Hello gateway', max_output_tokens: 50 },
})
const generate = (model: string) => ({
  path: `/v1beta/models/${model}:generateContent`,
  body: { contents: [{ role: 'user', parts: [{ text: 'Hello gateway' }] }], generationConfig: { maxOutputTokens: 50 } },
})
const generateStream = (model: string) => ({
  ...generate(model),
  path: `/v1beta/models/${model}:streamGenerateContent?alt=sse`,
})
const generateArray = (model: string) => ({ ...generate(model), path: `/v1beta/models/${model}:streamGenerateContent` })
const providers = {
  openai: { emulator: () => world.openai, reply: openAiReply },
  anthropic: { emulator: () => world.anthropic, reply: anthropicReply() },
  gemini: { emulator: () => world.gemini, reply: geminiReply },
  images: { emulator: () => world.openai, reply: openAiImages },
  audio: { emulator: () => world.openai, reply: openAiAudio },
} satisfies Record<string, { emulator(): Emulator; reply: Reply }>
const modelOf = { openai: 'gpt-4o-mini', anthropic: 'claude-haiku-4-5', gemini: 'gemini-3.5-flash' } as const

type Request = { provider: keyof typeof providers; path: string; body: object }
const cases: Request[] = [
  ...(['openai', 'anthropic', 'gemini'] as const).flatMap(provider => [
    ...[chat, messages, responses].flatMap(dialect =>
      [false, true].map(stream => {
        const { path, body } = dialect(modelOf[provider])
        return { provider, path, body: { ...body, stream } }
      }),
    ),
    ...[generate, generateStream, generateArray].map(dialect => ({ provider, ...dialect(modelOf[provider]) })),
  ]),
  { provider: 'openai', path: '/v1/embeddings', body: { model: 'text-embedding-3-small', input: ['one', 'two'] } },
  { provider: 'images', path: '/v1/images', body: { model: 'gpt-image-1-mini', prompt: 'a cat' } },
  { provider: 'audio', path: '/v1/audio/speech', body: { model: 'gpt-4o-mini-tts', input: 'Hello', voice: 'nova' } },
]

const answersText = (path: string) => !/embeddings|images|audio/.test(path)
const members = /"((?!max_)\w*tokens|\w+TokenCount)":\s*([^,}\s]+)/g
const promptNames = new Set([
  'prompt_tokens',
  'input_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
  'promptTokenCount',
])
const outputNames = new Set(['completion_tokens', 'output_tokens', 'candidatesTokenCount', 'thoughtsTokenCount'])

/** The tokens that the last usage of an answer states; null if it states none. Fails where one cannot be true. */
function statedTokens(t: ExecutionContext, text: string): { prompt: number; output: number } | null {
  const usages = text.split(/"(?:usage|usageMetadata)":/).slice(1)
  for (const [, name, value] of text.matchAll(members))
    t.true(/^\d{1,4}$/.test(value!) || value === 'null', `${name}: ${value}`)
  if (usages.length === 0) return null
  const stated = [...usages.at(-1)!.matchAll(members)]
  const sumOf = (names: Set<string>) =>
    stated.reduce((sum, [, name, value]) => sum + (names.has(name!) ? Number(value) : 0), 0)
  return { prompt: sumOf(promptNames), output: sumOf(outputNames) }
}

for (const { provider, path, body } of cases)
  test.serial(`200 and booked, whatever the server states: ${provider} ${path} ${JSON.stringify(body)}`, async t => {
    const { db } = world.gateway.services
    const { emulator, reply } = providers[provider]
    const stated: (number | null)[] = []
    const usages: ReturnType<typeof statedTokens>[] = []
    const calls = () => emulator().requests.length
    const before = calls()
    for (const count of monsters) {
      emulator().next(inflated(reply, count))
      const answer = await world.gateway.fetch(path, { key: account.live, body })
      const text = await answer.text()
      t.is(answer.status, 200, text)
      const header = answer.headers.get('x-gateway-cost-usd')
      const cost = header ?? text.match(/"cost":([\d.e-]+)/)?.[1] ?? null
      stated.push(cost === null ? null : Number(cost))
      if (answersText(path)) usages.push(statedTokens(t, text))
    }
    t.is(calls() - before, monsters.length, 'each answer stands')
    const { organisationId } = account
    const booked = () => db.generation.count({ where: { organisationId } })
    await eventually(async () => (await booked()) === monsters.length, 'all are booked')
    const rows = await db.generation.findMany({ where: { organisationId }, orderBy: { createdAt: 'asc' } })
    for (const [i, { promptTokens, completionTokens, costNano }] of rows.entries()) {
      t.true(promptTokens + completionTokens < 10_000, `${monsters[i]}: ${promptTokens} + ${completionTokens}`)
      t.true(costNano > 0n && costNano < 100_000_000n, `${monsters[i]}: ${costNano}`)
      if (answersText(path) && monsters[i] === '0') t.true(completionTokens > 0, 'an output is not free')
      if (answersText(path)) t.deepEqual(usages[i], { prompt: promptTokens, output: completionTokens }, monsters[i])
      if (stated[i] !== null) t.is(Math.round(stated[i]! * 1e9), Number(costNano), monsters[i])
    }
    // The invariants hold, and no event was refused.
    t.is(await chargedNano(world, account), Number(rows.reduce((sum, { costNano }) => sum + costNano, 0n)))
  })
