import test, { type ExecutionContext } from 'ava'
import { type CodexRun, runCodex } from './support/codex.ts'
import { emptyKey, liveKey, origin, requestsTo } from './support/environment.ts'
import { type Exchange, RecordingProxy } from './support/recording-proxy.ts'
import { marker } from './support/samples.ts'

type Session = CodexRun & { word: string; responses: Exchange[]; exchanges: Exchange[] }

/** Runs Codex through a recording proxy with a prompt for one scenario of the emulated providers. */
async function session(
  t: ExecutionContext,
  scenario: string,
  model: string,
  key = liveKey,
  settings: string[] = [],
  isSignedIn = false,
): Promise<Session> {
  t.timeout(60_000)
  const word = marker()
  const proxy = await RecordingProxy.start(origin)
  try {
    const run = await runCodex(proxy.url, { key, model, settings, isSignedIn, prompt: `agent:${scenario} ${word}` })
    const { exchanges } = proxy
    return { ...run, word, exchanges, responses: exchanges.filter(({ path }) => path.startsWith('/v1/responses')) }
  } finally {
    await proxy.close()
  }
}

function saidLast({ events }: Session): string | undefined {
  return events.findLast(({ item }) => item?.type === 'agent_message')?.item?.text
}

function succeeded(t: ExecutionContext, run: Session): void {
  const { exitCode, output, word, responses } = run
  t.is(exitCode, 0, output)
  t.is(saidLast(run), `The command printed ${word}.`, output)
  t.false(output.includes('metadata'), 'it found the model in the catalog')
  t.deepEqual(
    responses.map(({ status }) => status),
    [200, 200],
  )
}

/** The error of the `response.failed` that ends a stream. */
function failureIn({ answer }: Exchange): object {
  const [, data] = /^event: response\.failed\ndata: (.*)$/m.exec(answer) ?? []
  return JSON.parse(data!).response.error
}

test.serial('ok: gpt-5.6-luna, native: a tool round trip with reasoning', async t => {
  const run = await session(t, 'run', 'gpt-5.6-luna')
  succeeded(t, run)
  const seen = await requestsTo('openai', run.word)
  t.deepEqual(
    seen.map(({ path }) => path),
    ['/v1/responses', '/v1/responses'],
  )
  const { body } = seen[1]!
  t.is(body.store, false)
  t.is(body.client_metadata, undefined)
  t.true(body.tools.some(({ type }: { type: string }) => type === 'web_search'))
  t.is(body.max_tool_calls, 5)
  const sent = run.responses[1]!.body
  t.deepEqual(body.input, sent.input)
  t.is(body.input.filter(({ type }: { type: string }) => type === 'reasoning').length, 1)
})

for (const [provider, model] of [
  ['anthropic', 'claude-sonnet-4-5'],
  ['gemini', 'gemini-3.5-flash'],
] as const)
  test.serial(`ok: ${model}, translated: a tool round trip`, async t => {
    const run = await session(t, 'run', model)
    succeeded(t, run)
    const seen = await requestsTo(provider, run.word)
    t.is(seen.length, 2)
    t.true(seen[1]!.raw.includes(`echo ${run.word}`))
  })

test.serial('429 without credits: the client asks once and says why', async t => {
  const { exitCode, responses, output } = await session(t, 'run', 'gpt-5.6-luna', emptyKey)
  t.is(exitCode, 1, output)
  t.deepEqual(
    responses.map(({ status }) => status),
    [429],
  )
  t.regex(output, /quota/i)
})

for (const [fault, scenario] of [
  ['a 429 with retry-after', 'busy'],
  ['a 503', 'down'],
] as const)
  test.serial(`ok: ${fault} of the provider is retried, unseen by the client`, async t => {
    const run = await session(t, scenario, 'gpt-5.6-luna')
    succeeded(t, run)
    t.is((await requestsTo('openai', run.word)).length, 3)
  })

for (const [code, scenario] of [
  ['server_error', 'failed'],
  ['rate_limit_exceeded', 'limited'],
] as const)
  test.serial(`ok: after \`response.failed\` with \`${code}\` the client asks again`, async t => {
    const { exitCode, output, responses } = await session(t, scenario, 'gpt-5.6-luna')
    t.is(exitCode, 0, output)
    t.is(responses.length, 3)
    t.like(failureIn(responses[0]!), { code })
  })

for (const [provider, model] of [
  ['openai', 'gpt-5.6-luna'],
  ['anthropic', 'claude-sonnet-4-5'],
  ['gemini', 'gemini-3.5-flash'],
] as const)
  test.serial(`400 for a conversation that is too long for ${model}: the client stops and says so`, async t => {
    const { exitCode, output, responses, word } = await session(t, 'long', model)
    t.is(exitCode, 1, output)
    t.deepEqual(
      responses.map(({ status, answer }) => [status, JSON.parse(answer).error.code]),
      [[400, 'context_length_exceeded']],
    )
    t.regex(output, /ran out of room/)
    t.is((await requestsTo(provider, word)).length, 1)
  })

test.serial('`response.failed` for a conversation that grew too long: the client stops and says so', async t => {
  const { exitCode, output, responses } = await session(t, 'grown', 'gpt-5.6-luna')
  t.is(exitCode, 1, output)
  t.is(responses.length, 1)
  t.like(failureIn(responses[0]!), { code: 'context_length_exceeded' })
  t.regex(output, /ran out of room/)
})

test.serial('a stream that the provider cuts: the client asks again', async t => {
  const { responses, output, exitCode } = await session(t, 'cut', 'gpt-5.6-luna')
  t.is(exitCode, 0, output)
  t.is(responses.length, 3)
  t.regex(responses[0]!.answer, /"type":"response.failed"/)
})

/** Fewer tokens than the first answer of `agent:compact` reports, and more than what is left after a compaction has. */
const compactedEarly = 'model_auto_compact_token_limit=60000'
/** As docs/agents.md says. */
const overWebSocket = ['model_providers.headgate.supports_websockets=true']

for (const [provider, model] of [
  ['openai', 'gpt-5.6-luna'],
  ['anthropic', 'claude-sonnet-4-5'],
] as const)
  test.serial(`ok: ${model} over a WebSocket: a tool round trip on one connection`, async t => {
    const run = await session(t, 'run', model, liveKey, overWebSocket)
    const { exitCode, output, word, responses } = run
    t.is(exitCode, 0, output)
    t.is(saidLast(run), `The command printed ${word}.`, output)
    t.deepEqual(
      responses.map(({ method, status }) => [method, status]),
      [['GET', 101]],
      output,
    )
    const seen = await requestsTo(provider, word)
    t.is(seen.length, 2)
    t.true(seen[1]!.raw.includes(`echo ${word}`))
  })

test.serial('without credits over a WebSocket: the client asks once and says why', async t => {
  const { exitCode, responses, output } = await session(t, 'run', 'gpt-5.6-luna', emptyKey, overWebSocket)
  t.is(exitCode, 1, output)
  t.regex(output, /quota/i)
  t.deepEqual(
    responses.map(({ method, status }) => [method, status]),
    [['GET', 101]],
    output,
  )
})

for (const [provider, model] of [
  ['openai', 'gpt-5.6-luna'],
  ['anthropic', 'claude-sonnet-4-5'],
] as const) {
  test.serial(`ok: ${model}: requests that the client compresses`, async t => {
    const run = await session(t, 'run', model, liveKey, [], true)
    succeeded(t, run)
    for (const { headers } of run.responses) t.is(headers['content-encoding'], 'zstd')
    const seen = await requestsTo(provider, run.word)
    t.is(seen.length, 2)
    for (const { headers } of seen) t.is(headers['content-encoding'], undefined)
  })

  test.serial(`ok: ${model}: a conversation goes on from what the gateway compacted`, async t => {
    const run = await session(t, 'compact', model, liveKey, [compactedEarly], true)
    t.is(run.exitCode, 0, run.output)
    t.is(saidLast(run), `The command printed ${run.word}.`, run.output)
    const inputs = run.responses.map(({ body }) => body.input.map(({ type }: { type: string }) => type))
    t.is(inputs.length, 3)
    t.deepEqual(inputs[1].slice(-2), ['function_call_output', 'compaction_trigger'])
    t.deepEqual([inputs[2].at(-1), inputs[2].includes('function_call_output')], ['compaction', false])
    t.is((await requestsTo(provider, run.word)).length, 3)
  })

  test.serial(`ok: ${model}: a conversation is compacted over a WebSocket`, async t => {
    const settings = [compactedEarly, 'model_providers.openai-over-http.supports_websockets=true']
    const run = await session(t, 'compact', model, liveKey, settings, true)
    t.is(run.exitCode, 0, run.output)
    t.is(saidLast(run), `The command printed ${run.word}.`, run.output)
    t.deepEqual(
      run.responses.map(({ method, status }) => [method, status]),
      [['GET', 101]],
    )
    t.is((await requestsTo(provider, run.word)).length, 3)
  })
}
