import test, { type ExecutionContext } from 'ava'
import { thinking } from './support/agent-upstream.ts'
import { type ClaudeRun, runClaudeCode } from './support/claude-code.ts'
import { createKey, emptyKey, liveKey, origin, requestsTo, spentUsd } from './support/environment.ts'
import { type Exchange, RecordingProxy } from './support/recording-proxy.ts'
import { marker } from './support/samples.ts'

/** The stack's SERVICE_MARGIN_PERCENT is the default, 5 %. */
const margin = 1.05
const maxPriceErrorUsd = 0.005

type Session = ClaudeRun & { word: string; messages: Exchange[]; exchanges: Exchange[] }

/** Runs Claude Code through a recording proxy with a prompt for one scenario of the emulated providers. */
async function session(
  t: ExecutionContext,
  scenario: string,
  model: string,
  { key = liveKey, env = {} }: { key?: string; env?: Record<string, string> } = {},
): Promise<Session> {
  t.timeout(60_000)
  const word = marker()
  const proxy = await RecordingProxy.start(origin)
  try {
    const run = await runClaudeCode(proxy.url, { key, model, prompt: `agent:${scenario} ${word}`, env })
    return { ...run, word, messages: proxy.messages, exchanges: proxy.exchanges }
  } finally {
    await proxy.close()
  }
}

function succeeded(t: ExecutionContext, { exitCode, result, output, word }: Session): void {
  t.is(exitCode, 0, output)
  t.like(result, { is_error: false, result: `The command printed ${word}.` })
}

const providerOf = { native: 'anthropic', openai: 'openai', gemini: 'gemini' } as const

for (const model of ['claude-opus-5-5', 'claude-sonnet-4-5-20250929'])
  test.serial(
    `ok: ${model}, native: a tool round trip, unchanged bytes, and the cost that the client counts`,
    async t => {
      const key = await createKey({})
      const run = await session(t, 'run', model, { key })
      succeeded(t, run)
      t.is(run.result!.num_turns, 2)
      t.deepEqual(
        run.messages.map(({ status }) => status),
        [200, 200],
      )
      const seen = await requestsTo(providerOf.native, run.word)
      t.is(seen.length, 2)
      for (const [index, { body, headers }] of seen.entries()) {
        const sent = run.messages[index]!
        t.is(JSON.stringify(body), JSON.stringify({ ...sent.body, model: body.model }), 'all but the model’s name')
        t.is(headers['anthropic-beta'], String(sent.headers['anthropic-beta']))
        t.is(headers['anthropic-version'], String(sent.headers['anthropic-version']))
      }
      const blocks = seen[1]!.body.messages.flatMap(({ content }: { content: unknown }) => content)
      t.deepEqual(
        blocks.find(({ type }: { type: string }) => type === 'thinking'),
        thinking,
      )
      t.like(
        blocks.find(({ type }: { type: string }) => type === 'tool_result'),
        { is_error: false },
      )
      const charged = await spentUsd(key, run.result!.total_cost_usd * margin - maxPriceErrorUsd)
      t.true(run.result!.total_cost_usd > 0.5)
      t.true(
        Math.abs(charged - run.result!.total_cost_usd * margin) < maxPriceErrorUsd,
        `charged ${charged}, the client counts ${run.result!.total_cost_usd} without the margin`,
      )
    },
  )

for (const [provider, model] of [
  [providerOf.openai, 'gpt-5.6-luna'],
  [providerOf.gemini, 'gemini-3.5-flash'],
] as const)
  test.serial(`ok: ${model}, translated: a tool round trip`, async t => {
    const run = await session(t, 'run', model, { env: { CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS: '1' } })
    succeeded(t, run)
    t.is(run.result!.num_turns, 2)
    const seen = await requestsTo(provider, run.word)
    t.is(seen.length, 2)
    t.true(seen[1]!.raw.includes(run.word))
    t.false(
      seen.some(({ raw }) => raw.includes('x-anthropic-billing-header')),
      'it differs in every request and would void the prompt cache',
    )
  })

test.serial('402 without credits: the client asks once and says why', async t => {
  const { exitCode, messages, output } = await session(t, 'run', 'claude-sonnet-4-5', { key: emptyKey })
  t.is(exitCode, 1, output)
  t.deepEqual(
    messages.map(({ status }) => status),
    [402],
  )
  t.is(JSON.parse(messages[0]!.answer).error.type, 'billing_error')
  t.regex(output, /402/)
})

test.serial('404 for a model that there is not: the client asks once more, without a stream', async t => {
  const { exitCode, messages, output } = await session(t, 'run', 'no-such-model')
  t.is(exitCode, 1, output)
  t.deepEqual(
    messages.map(({ status, body }) => [status, body.stream === true]),
    [
      [404, true],
      [404, false],
    ],
  )
  t.is(JSON.parse(messages[0]!.answer).error.type, 'not_found_error')
})

/** What the client changes in its second request after a refusal of the provider, which reaches it unchanged. */
const recoveries: Record<string, [model: string, isChanged: (body: Exchange['body']) => boolean]> = {
  overflow: ['claude-sonnet-4-5', ({ max_tokens }) => max_tokens === 9_000],
  effort: ['claude-opus-5-5', ({ output_config }) => output_config?.effort === undefined],
  system: ['claude-opus-5-5', ({ messages }) => messages.every(({ role }: { role: string }) => role !== 'system')],
}
for (const [scenario, [model, isChanged]] of Object.entries(recoveries))
  test.serial(`ok: after the provider’s 400 of ${scenario} the client asks again in another way`, async t => {
    const run = await session(t, scenario, model)
    succeeded(t, run)
    t.deepEqual(
      run.messages.map(({ status, body }) => [status, isChanged(body)]),
      [
        [400, false],
        [200, true],
      ],
    )
  })

test.serial(
  'ok: an overflow in another provider’s words is restated, and the client asks for fewer tokens',
  async t => {
    const run = await session(t, 'overflow', 'agent-small', { env: { CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS: '1' } })
    succeeded(t, run)
    t.deepEqual(
      run.messages.map(({ status }) => status),
      [400, 200],
    )
    const { message } = JSON.parse(run.messages[0]!.answer).error
    const words =
      /^input length and `max_tokens` exceed context limit: (\d+) \+ 32000 > 40000 \(capability_rejected: max_tokens_context_overflow\)/
    const [, input] = words.exec(message) ?? []
    t.is(run.messages[1]!.body.max_tokens, 40_000 - Number(input) - 1_000, message)
  },
)

test.serial('ok: an overloaded provider that says so after its 200 is asked again, unseen by the client', async t => {
  const run = await session(t, 'overloaded', 'claude-sonnet-4-5')
  succeeded(t, run)
  t.is((await requestsTo(providerOf.native, run.word)).length, 2)
})

test.serial('ok: the client finds the models whose ids have a name that it knows', async t => {
  const run = await session(t, 'run', 'claude-sonnet-4-5', {
    env: { CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY: '1', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '' },
  })
  const found = run.exchanges.filter(({ path }) => path.startsWith('/v1/models'))
  t.true(found.length > 0, run.output)
  t.is(found[0]!.status, 200)
  const ids = JSON.parse(found[0]!.answer).data.map(({ id }: { id: string }) => id)
  t.true(ids.includes('claude-opus-5-5'))
  for (const { method, status } of run.exchanges.filter(({ path }) => path === '/api/hello'))
    t.deepEqual([method, status], ['HEAD', 200])
})
