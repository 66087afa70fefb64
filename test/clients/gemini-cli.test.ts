import test, { type ExecutionContext } from 'ava'
import { emptyKey, liveKey, origin, requestsTo } from './support/environment.ts'
import { type GeminiCliRun, runGeminiCli } from './support/gemini-cli.ts'
import { type Exchange, RecordingProxy } from './support/recording-proxy.ts'
import { marker, targets } from './support/samples.ts'

type Session = GeminiCliRun & { word: string; exchanges: Exchange[] }

/** Runs gemini-cli through a recording proxy with a prompt for one scenario of the emulated providers. */
async function session(t: ExecutionContext, scenario: string, model: string, key = liveKey): Promise<Session> {
  t.timeout(60_000)
  const word = marker()
  const proxy = await RecordingProxy.start(origin)
  try {
    const run = await runGeminiCli(proxy.url, { key, model, prompt: `agent:${scenario} ${word}` })
    return { ...run, word, exchanges: proxy.exchanges }
  } finally {
    await proxy.close()
  }
}

for (const { model, provider } of targets)
  test.serial(`ok: gemini-cli, ${model}: a tool round trip`, async t => {
    const { exitCode, response, output, word, exchanges } = await session(t, 'run', model)
    t.is(exitCode, 0, output)
    t.is(response, `The command printed ${word}.`, output)
    const seen = await requestsTo(provider, word)
    t.is(seen.length, 2)
    t.true(seen[1]!.raw.includes(`echo ${word}`))
    t.deepEqual(
      exchanges.map(({ path, status }) => [path.replace(/.*:/, ''), status]),
      [
        ['streamGenerateContent?alt=sse', 200],
        ['streamGenerateContent?alt=sse', 200],
      ],
    )
  })

test.serial('402 without credits: gemini-cli asks once and says why', async t => {
  const { exitCode, output, exchanges } = await session(t, 'run', 'gemini-3.5-flash', emptyKey)
  t.not(exitCode, 0)
  t.deepEqual(
    exchanges.map(({ status }) => status),
    [402],
  )
  t.regex(output, /Add credits/)
})
