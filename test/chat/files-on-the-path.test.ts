import { once } from 'node:events'
import { join } from 'node:path'
import { startOpenAiEmulator } from '../emulators/openai.ts'
import { call, eventually, startProcess } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway, useStores } from '../support/use.ts'

/** A reader follows a plain request through so many files at most. `LIST_FILES=1` in the environment prints them. */
const maxFiles = 58
const warmUps = 5
const minMeasured = 4
const maxMeasured = 30

const preload = join(import.meta.dirname, '../support/chat/coverage-preload.ts')
const stores = useStores(test)
const gateway = useGateway(test, {}, { stores })
const upstream = use(test, startOpenAiEmulator)
const web = use(test, () => {
  const env = {
    OPENAI_API_KEY: 'sk-upstream',
    OPENAI_BASE_URL: `${upstream.url}/v1`,
    NODE_OPTIONS: `--import=${preload}`,
  }
  return startProcess('web', stores, env, { ipc: true })
})

/** The functions that ran in the process since the last call, by file. */
async function takeFunctions(mark: 'start' | 'stop'): Promise<Map<string, string>> {
  web.child.send(mark)
  const [lines] = await once(web.child, 'message')
  return new Map((lines as string[]).map(line => line.split(': ', 2) as [string, string]))
}

/** Sends one plain request and waits until it is settled and in the request log. */
async function runPlainRequest(key: string): Promise<void> {
  const body = { model: 'gpt-5.6-luna', messages: [{ role: 'user', content: 'Hello' }] }
  const response = await call(web.url, '/v1/chat/completions', { key, body })
  const text = await response.text()
  if (response.status !== 200) throw new Error(text)
  const requestId = response.headers.get('x-request-id')!
  await eventually(
    async () => (await gateway.services.db.generation.count({ where: { requestId } })) > 0,
    'it is settled',
  )
}

test(`200 within ${maxFiles} product files: a plain chat request of a warm process, with its settlement`, async t => {
  const { live } = await gateway.account()
  for (let i = 0; i < warmUps; i++) await runPlainRequest(live)
  // Files of every request, without those of timers that happen to run meanwhile: on a busy machine they run in many.
  let files: Map<string, string> | null = null
  for (let i = 0; i < minMeasured || (i < maxMeasured && files!.size > maxFiles); i++) {
    await takeFunctions('start')
    await runPlainRequest(live)
    const ran = await takeFunctions('stop')
    files = new Map([...(files ?? ran)].filter(([path]) => ran.has(path)))
  }
  const lines = Array.from(files!, ([path, names]) => `${path}: ${names}`).sort()
  const list = `${lines.length} files:\n${lines.join('\n')}`
  if (process.env.LIST_FILES) console.log(list)
  t.true(lines.length <= maxFiles, list)
})
