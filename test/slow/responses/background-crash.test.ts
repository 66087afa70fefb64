import OpenAI from 'openai'
import type { Services } from '../../../shared/open-services.ts'
import { type Emulator, hang } from '../../emulators/emulator.ts'
import { startOpenAiEmulator } from '../../emulators/openai.ts'
import { breaches, ledgerCheck, observe } from '../../support/chaos.ts'
import {
  createAccount,
  eventually,
  freshStores,
  type Process,
  type Stores,
  startProcess,
} from '../../support/gateway.ts'
import { collect, type Event, stalling, untilOver } from '../../support/responses/background.ts'
import { test } from '../../support/test.ts'

/** Responses in the background while their worker is killed, and while a web process restarts. */

let stores: Stores
let upstream: Emulator
let services: Services
let web: Process
let client: OpenAI
let env: Record<string, string>
const processes: Process[] = []

async function start(role: 'web' | 'worker'): Promise<Process> {
  const process = await startProcess(role, stores, env)
  processes.push(process)
  return process
}

test.before(async () => {
  ;[stores, upstream] = await Promise.all([freshStores(), startOpenAiEmulator()])
  env = { OPENAI_API_KEY: 'sk-upstream', OPENAI_BASE_URL: `${upstream.url}/v1` }
  services = await observe(stores, env)
  web = await start('web')
  const account = await createAccount(services)
  const { organisationId: id } = account
  await services.db.organisation.update({ where: { id }, data: { keepResponses: true } })
  client = new OpenAI({ apiKey: account.live, baseURL: `${web.url}/v1`, maxRetries: 0 })
})
test.beforeEach(() => upstream.reset())
test.after.always(async () => {
  await Promise.all(processes.map(({ kill }) => kill()))
  await services?.close()
  await upstream?.close()
  await stores?.drop()
})

const background = { model: 'gpt-4o-mini', input: 'Hello', background: true, stream: true } as const

/** Reads the events of a new response; `seen` has those until now. */
async function create(): Promise<{ seen: Event[]; done: Promise<void> }> {
  const stream = await client.responses.create(background)
  const seen: Event[] = []
  const done = (async () => {
    for await (const event of stream) seen.push(event as Event)
  })()
  return { seen, done }
}

test.serial('its worker is killed: made by another while nothing was shown, failed after that', async t => {
  t.timeout(180_000)
  const first = await start('worker')
  upstream.next(hang)
  const unseen = await create()
  await eventually(() => upstream.requests.length === 1, 'the first is called')
  upstream.next(stalling(6).reply)
  const shown = await create()
  await eventually(() => shown.seen.length > 3, 'events of the second are seen')
  await first.kill()
  await start('worker')
  await Promise.all([unseen.done, shown.done])
  t.is(unseen.seen.at(-1)!.type, 'response.completed')
  t.like(shown.seen.at(-1), { type: 'response.failed', response: { error: { code: 'server_error' } } })
  for (const { seen } of [unseen, shown])
    t.deepEqual(
      seen.map(event => event.sequence_number),
      [...seen.keys()],
    )
  t.is(upstream.requests.length, 3)
  t.is((await untilOver(client, unseen.seen[0]!.response!.id)).status, 'completed')
  t.deepEqual(await breaches(services), [])
  t.is((await ledgerCheck(stores)).exitCode, 0)
})

test.serial('a web process restarts: its streams are cut off and resumed at another', async t => {
  t.timeout(180_000)
  const stalled = stalling(6)
  upstream.next(stalled.reply)
  const { seen, done } = await create()
  await eventually(() => seen.length > 3, 'events are seen')
  const other = await start('web')
  web.child.kill('SIGTERM')
  await t.throwsAsync(done)
  const resumed = new OpenAI({ apiKey: client.apiKey, baseURL: `${other.url}/v1`, maxRetries: 0 })
  const last = seen.at(-1)!.sequence_number
  const rest = collect(await resumed.responses.retrieve(seen[0]!.response!.id, { stream: true, starting_after: last }))
  stalled.go()
  const all = [...seen, ...(await rest)]
  t.is(all.at(-1)!.type, 'response.completed')
  t.deepEqual(
    all.map(event => event.sequence_number),
    [...all.keys()],
  )
})
