import test, { type ExecutionContext } from 'ava'
import { type CodexRun, runCodex } from './support/codex.ts'
import { emptyKey, liveKey, origin, requestsTo } from './support/environment.ts'
import { type Exchange, RecordingProxy } from './support/recording-proxy.ts'
import { marker } from './support/samples.ts'

type Session = CodexRun & { word: string; responses: Exchange[]; exchanges: Exchange[] }

/** Runs Codex through a recording proxy with a prompt for one scenario of the emulated providers. */
async function session(t: ExecutionContext, scenario: string, model: string, key = liveKey): Promise<Session> {
  t.timeout(60_000)
  const word = marker()
  const proxy = await RecordingProxy.start(origin)
  try {
    const run = await runCodex(proxy.url, { key, model, prompt: `agent:${scenario} ${word}` })
    const { exchanges } = proxy
    return { ...run, word, exchanges, responses: exchanges.filter(({ path }) => path.startsWith('/v1/responses')) }
  } finally {
    await proxy.close()
  }
}

function succeeded(t: ExecutionContext, { exitCode, events, output, word, responses }: Session): void {
  t.is(exitCode, 0, output)
  const said = events.filter(({ item }) => item?.type === 'agent_message').map(({ item }) => item!.text)
  t.is(said.at(-1), `The command printed ${word}.`, output)
  t.false(output.includes('metadata'), 'it found the model in the catalog')
  t.deepEqual(
    responses.map(({ status }) => status),
    [200, 200],
  )
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

test.serial('a stream that the provider cuts: the client asks again', async t => {
  const { responses, output, exitCode } = await session(t, 'cut', 'gpt-5.6-luna')
  t.is(exitCode, 0, output)
  t.is(responses.length, 3)
  t.regex(responses[0]!.answer, /"type":"response.failed"/)
})
