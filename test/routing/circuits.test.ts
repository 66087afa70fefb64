import { setTimeout as sleep } from 'node:timers/promises'
import { Emulator } from '../emulators/emulator.ts'
import { chatReply, rateLimited, serverError, startOpenAiEmulator } from '../emulators/openai.ts'
import { saying } from '../support/chat/gateway.ts'
import { call, eventually, type Process, startProcess } from '../support/gateway.ts'
import { operatorJson } from '../support/operator.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { useStores } from '../support/use.ts'

let webs: Process[]
let openai: Emulator
let openrouter: Emulator
let key: string

const stores = useStores(test)
test.before(async () => {
  ;[openai, openrouter] = await Promise.all([startOpenAiEmulator(), startOpenAiEmulator()])
  const env = {
    OPENAI_API_KEY: 'upstream-secret',
    OPENAI_BASE_URL: `${openai.url}/v1`,
    OPENROUTER_API_KEY: 'upstream-secret',
    OPENROUTER_BASE_URL: `${openrouter.url}/v1`,
  }
  webs = await Promise.all([startProcess('web', stores, env), startProcess('web', stores, env)])
  const { id } = await operatorJson<{ id: string }>(stores, 'org', 'create', '--name', 'Two processes')
  await operatorJson(stores, 'credit', 'add', '--org', id, '--usd', '100')
  key = (await operatorJson<{ key: string }>(stores, 'key', 'create', '--org', id, '--env', 'live')).key
})
test.after.always(async () => {
  await Promise.all([...(webs ?? []).map(web => web.kill()), openai?.close(), openrouter?.close()])
})

/** What the issue asks for, of leaving a provider and of taking it back. */
const withinMs = 2_000
const betweenMs = 50
/** At most so many requests of a process begin within that time, however long a busy machine takes for each. */
const maxRequests = withinMs / betweenMs
const coolDownMs = 1_000

type Sample = {
  web: number
  startedMs: number
  status: number
  provider: string | null
  attempts: number
  whole: boolean
}

/** One request after the other to both processes, and what became of each. */
class Traffic {
  readonly samples: Sample[] = []
  readonly #body: object
  readonly #clients: Promise<void>[]
  #stopped = false

  constructor(t: ExecutionContext, model: string, stream: boolean) {
    t.teardown(() => this.#end())
    this.#body = saying(model, 'Hello', { stream })
    this.#clients = webs.map((_, web) => this.#client(web))
  }

  async #client(web: number): Promise<void> {
    while (!this.#stopped) {
      const startedMs = Date.now()
      const response = await call(webs[web]!.url, '/v1/chat/completions', {
        key,
        body: { ...this.#body, user: `${web}` },
      })
      const text = await response.text()
      this.samples.push({
        web,
        startedMs,
        status: response.status,
        provider: response.headers.get('x-gateway-provider'),
        attempts: Number(response.headers.get('x-gateway-attempts')),
        whole: text.endsWith('data: [DONE]\n\n') || text.startsWith('{"id"'),
      })
      await sleep(betweenMs)
    }
  }

  /** Waits until a request was tried at a provider that is out of order: it will not be tried again for a second. */
  async trial(): Promise<void> {
    const afterMs = Date.now()
    const tried = () => this.samples.some(({ startedMs, attempts }) => startedMs > afterMs && attempts > 1)
    await eventually(tried, 'the provider was tried')
  }

  /** When each process first had a request that began after a moment served by a provider at once. */
  async servedBy(provider: string, afterMs: number): Promise<number[]> {
    const served = (web: number) =>
      this.samples.find(one => {
        return one.web === web && one.startedMs >= afterMs && one.provider === provider && one.attempts === 1
      })
    await eventually(() => [0, 1].every(web => served(web) !== undefined), `both processes are served by ${provider}`)
    return [0, 1].map(web => served(web)!.startedMs)
  }

  /** How many requests to a process began between two moments. */
  count(web: number, fromMs: number, toMs: number): number {
    return this.samples.filter(one => one.web === web && one.startedMs >= fromMs && one.startedMs < toMs).length
  }

  async #end(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#clients)
  }

  /** Ends it. No request may have failed. */
  async stop(t: ExecutionContext): Promise<void> {
    await this.#end()
    t.deepEqual(
      this.samples.filter(({ status, whole }) => status !== 200 || !whole),
      [],
    )
    t.true(this.samples.length > 20)
  }
}

/** Both processes left the provider soon after a moment, and then tried it only as often as its circuit half opens. */
async function leftAfter(t: ExecutionContext, traffic: Traffic, eventMs: number): Promise<void> {
  const leftMs = await traffic.servedBy('openrouter', eventMs)
  for (const [web, ms] of leftMs.entries())
    t.true(traffic.count(web, eventMs, ms) <= maxRequests, `left after ${ms - eventMs} ms`)
  t.log(`left after ${leftMs.map(ms => ms - eventMs).join(' and ')} ms`)
  const fromMs = Math.max(eventMs + withinMs, ...leftMs)
  const watchedMs = 2 * coolDownMs
  await eventually(() => Date.now() > fromMs + watchedMs, 'it was left alone for a while')
  const tried = traffic.samples.filter(({ startedMs, attempts, provider }) => {
    return startedMs > fromMs && (attempts > 1 || provider === 'openai')
  })
  const maxTrials = Math.ceil((Date.now() - fromMs) / coolDownMs)
  t.true(tried.length <= maxTrials, `${tried.length} of at most ${maxTrials} trials`)
}

async function backAfter(t: ExecutionContext, traffic: Traffic, eventMs: number): Promise<void> {
  const backMs = await traffic.servedBy('openai', eventMs)
  for (const [web, ms] of backMs.entries())
    t.true(traffic.count(web, eventMs, ms) <= maxRequests, `back after ${ms - eventMs} ms`)
  t.log(`back after ${backMs.map(ms => ms - eventMs).join(' and ')} ms`)
}

test.serial(
  '200 all the time while a provider dies and comes back: both processes leave it and take it back',
  async t => {
    const traffic = new Traffic(t, 'gpt-5', false)
    await traffic.servedBy('openai', 0)
    const port = Number(new URL(openai.url).port)
    const diedMs = Date.now()
    await openai.close()
    await leftAfter(t, traffic, diedMs)
    await traffic.trial()
    openai = await startOpenAiEmulator(port)
    await backAfter(t, traffic, Date.now())
    await traffic.stop(t)
  },
)

test.serial('200 all the time while a provider answers 500: both processes leave it and take it back', async t => {
  let broken = false
  const port = Number(new URL(openai.url).port)
  await openai.close()
  openai = await Emulator.start((request, response) => (broken ? serverError : chatReply())(request, response), port)
  const traffic = new Traffic(t, 'gpt-5-mini', true)
  await traffic.servedBy('openai', 0)
  const brokenMs = Date.now()
  broken = true
  await leftAfter(t, traffic, brokenMs)
  await traffic.trial()
  broken = false
  await backAfter(t, traffic, Date.now())
  await traffic.stop(t)
})

test.serial('200 all the time while a provider asks one process for a pause: both keep it', async t => {
  const pauseMs = 4_000
  const traffic = new Traffic(t, 'gpt-5-nano', true)
  await traffic.servedBy('openai', 0)
  openai.next(rateLimited(String(pauseMs / 1_000)))
  await eventually(() => traffic.samples.some(({ attempts }) => attempts === 2), 'one process was asked')
  const asked = traffic.samples.find(({ attempts }) => attempts === 2)!
  const leftMs = await traffic.servedBy('openrouter', asked.startedMs)
  for (const [web, ms] of leftMs.entries())
    t.true(traffic.count(web, asked.startedMs, ms) <= maxRequests, `left after ${ms - asked.startedMs} ms`)
  await traffic.servedBy('openai', Math.max(...leftMs))
  const limited = openai.requests.find(({ receivedAt, body }) => {
    return receivedAt >= asked.startedMs && body.user === `${asked.web}`
  })
  const askedMs = limited!.receivedAt
  const early = openai.requests.filter(({ receivedAt, body }) => {
    return receivedAt > leftMs[body.user]! && receivedAt < askedMs + pauseMs
  })
  t.deepEqual(early, [])
  await backAfter(t, traffic, askedMs + pauseMs)
  t.is(traffic.samples.filter(({ attempts }) => attempts > 1).length, 1, 'no other request saw it')
  await traffic.stop(t)
})
