// Provider preferences of a request and of its key hold for work that runs after it was accepted.
import { startOpenAiEmulator } from '../emulators/openai.ts'
import { chatLine, createBatch, ended as endedBatch, jsonLines, uploadInput } from '../support/batches/gateway.ts'
import { path } from '../support/delayed/jobs.ts'
import type { KeyOptions } from '../support/gateway.ts'
import { answerOf, over, submit } from '../support/jobs/gateway.ts'
import { patchKey } from '../support/realtime/sessions.ts'
import { keepingAccount } from '../support/responses/world.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

/** At openai first, then at openrouter. */
const model = 'gpt-5-mini'
const messages = [{ role: 'user', content: 'Hello' }]
const only = { only: ['openrouter'] }
type Preferences = NonNullable<KeyOptions['provider']>

const openai = use(test, startOpenAiEmulator)
const openrouter = use(test, startOpenAiEmulator)
const gateway = useGateway(test, () => ({
  OPENAI_API_KEY: 'sk-first',
  OPENAI_BASE_URL: `${openai.url}/v1`,
  OPENROUTER_API_KEY: 'sk-second',
  OPENROUTER_BASE_URL: `${openrouter.url}/v1`,
}))
test.beforeEach(() => {
  openai.reset()
  openrouter.reset()
})

/** Accepts work of a key, which may change, and runs it only then. */
async function run(
  t: ExecutionContext,
  accept: (key: string, ofRequest: { provider?: Preferences }) => Promise<(key: string) => Promise<unknown>>,
  { ofRequest, ofKey, later }: { ofRequest?: Preferences; ofKey?: Preferences; later?: Preferences },
) {
  const { live } = await keepingAccount({ gateway }, ofKey && { provider: ofKey })
  const end = await accept(live, ofRequest ? { provider: ofRequest } : {})
  if (later) await patchKey(gateway.services, live, { provider: later })
  const workers = startWorkers(gateway.services)
  try {
    await end(live)
  } finally {
    await workers.stop()
  }
  const posts = [openai, openrouter].map(({ requests }) => requests.filter(({ method }) => method === 'POST').length)
  t.deepEqual(posts, [0, 1])
  t.deepEqual(await gateway.settled(), [])
}

const kinds = {
  'a delayed job': async (key: string, more: object) => {
    const { id } = await submit(gateway, path, key, { body: { model, messages, ...more }, completion_window: '1h' })
    return () => over(gateway, key, path, id)
  },
  'a response in the background': async (key: string, more: object) => {
    const body = { model, input: 'Hello', background: true, ...more }
    const { id } = await answerOf(await gateway.fetch('/v1/responses', { key, body }))
    return () => over(gateway, key, '/v1/responses', id)
  },
  'a line of a batch': async (key: string, more: object) => {
    const door = { url: gateway.url, key }
    const lines = jsonLines([chatLine('one', model, 'Hello', { max_tokens: 20, ...more })])
    const { id } = await createBatch(door, await uploadInput(door, lines))
    return () => endedBatch(door, id)
  },
}
for (const [title, accept] of Object.entries(kinds)) {
  test.serial(`completed at the permitted provider: ${title}, by its request`, t => run(t, accept, { ofRequest: only }))
  test.serial(`completed at the permitted provider: ${title}, by its key`, t => run(t, accept, { ofKey: only }))
  test.serial(`completed at the permitted provider: ${title}, by its key since it was accepted`, t =>
    run(t, accept, { later: { ignore: ['openai'] } }),
  )
}
