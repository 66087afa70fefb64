import type { ErrorBody } from '../../../shared/base/errors.ts'
import { hashSecret } from '../../../shared/keys/secret.ts'
import { call, eventually, type Process, startProcess } from '../../support/gateway.ts'
import { operatorJson } from '../../support/operator.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { useStores } from '../../support/use.ts'

let webs: Process[]
let organisation: string
let provisioning: string

const stores = useStores(test)
test.before(async () => {
  webs = await Promise.all([startProcess('web', stores), startProcess('web', stores)])
  organisation = (await operatorJson<{ id: string }>(stores, 'org', 'create', '--name', 'Load')).id
  const created = await operatorJson<{ key: string }>(stores, 'provisioning-key', 'create', '--org', organisation)
  provisioning = created.key
})
test.after.always(async () => {
  await Promise.all((webs ?? []).map(web => web.kill()))
})

const body = JSON.stringify({ model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }] })
const connectionsPerProcess = 8
const requestsBetween = 150

type Sample = {
  web: Process
  key: string
  startedMs: number
  status: number
  code: string | null
  limit: string | null
}

/** Clients that send one request after the other to both processes, and what became of each. */
class Load {
  readonly samples: Sample[] = []
  readonly key: string
  #stopped = false
  readonly #clients: Promise<void>[]

  constructor(key: string) {
    this.key = key
    this.#clients = webs.flatMap(web => Array.from({ length: connectionsPerProcess }, () => this.#client(web)))
  }

  async #client(web: Process): Promise<void> {
    while (!this.#stopped) this.samples.push(await ask(web, this.key))
  }

  /** Waits until each process has answered so many requests more that started from now on. */
  async more(count = requestsBetween): Promise<void> {
    const from = performance.now()
    const since = (web: Process) => this.samples.filter(sample => sample.web === web && sample.startedMs >= from).length
    await eventually(() => webs.every(web => since(web) >= count), 'both processes answered more requests')
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#clients)
  }

  /** The answers that are neither a success nor the refusal of a key that ended. */
  unexpected(): Pick<Sample, 'status' | 'code'>[] {
    const other = this.samples.filter(({ status, code }) => status !== 200 && code !== dead.code)
    return other.map(({ status, code }) => ({ status, code }))
  }
}

async function ask(web: Process, key: string): Promise<Sample> {
  const startedMs = performance.now()
  const response = await call(web.url, '/v1/chat/completions', { key, body })
  const { error } = (await response.json()) as Partial<ErrorBody>
  const limit = response.headers.get('x-ratelimit-limit-requests')
  return { web, key, startedMs, status: response.status, code: error?.code ?? null, limit }
}

async function manage<T>(web: Process, method: string, path: string, fields?: unknown): Promise<T> {
  const response = await call(web.url, `/api/v1/keys${path}`, { method, key: provisioning, body: fields })
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
  return (await response.json()) as T
}

type Created = { data: { hash: string }; key: string }

async function underLoad(): Promise<Load> {
  const { key } = await manage<Created>(webs[0]!, 'POST', '', { environment: 'test' })
  const load = new Load(key)
  await load.more()
  return load
}

/** Makes a change under load; gives the requests that started after it was answered. */
async function after(load: Load, change: () => Promise<unknown>): Promise<Sample[]> {
  await change()
  const answeredMs = performance.now()
  await load.more()
  return load.samples.filter(({ startedMs }) => startedMs > answeredMs)
}

function all(t: ExecutionContext, samples: Sample[], expected: Partial<Sample>): void {
  t.true(samples.length >= requestsBetween * 2)
  const wrong = samples.filter(sample =>
    Object.entries(expected).some(([field, value]) => sample[field as keyof Sample] !== value),
  )
  t.deepEqual(
    wrong.slice(0, 3).map(({ status, code, limit }) => ({ status, code, limit })),
    [],
  )
}

const dead = { status: 401, code: 'revoked_api_key' }

const rolls = {
  'the command line': async (hash: string) => (await operatorJson<Created>(stores, 'key', 'roll', '--hash', hash)).key,
  'the API of one of them': async (hash: string) => (await manage<Created>(webs[1]!, 'POST', `/${hash}/roll`)).key,
}
for (const [where, roll] of Object.entries(rolls)) {
  test.serial(
    `401 for every request that starts after a roll was answered, on both processes: by ${where}`,
    async t => {
      const load = await underLoad()
      const used: Sample[] = []
      const later = await after(load, async () => {
        const secret = await roll(hashSecret(load.key))
        used.push(...(await Promise.all(webs.map(web => ask(web, secret)))))
      })
      all(t, later, dead)
      t.deepEqual(
        used.map(({ status }) => status),
        [200, 200],
      )
      await load.stop()
      t.deepEqual(load.unexpected(), [])
    },
  )
}

const revocations = {
  'the command line': (hash: string) => operatorJson(stores, 'key', 'revoke', '--hash', hash),
  'the API of one of them': (hash: string) => manage(webs[0]!, 'DELETE', `/${hash}`),
}
for (const [where, revoke] of Object.entries(revocations)) {
  test.serial(`401 for every request that starts after a revoke was answered: by ${where}`, async t => {
    const load = await underLoad()
    const later = await after(load, () => revoke(hashSecret(load.key)))
    all(t, later, dead)
    await load.stop()
    t.deepEqual(load.unexpected(), [])
  })
}

test.serial(
  '403 and new limits for every request that starts after a PATCH was answered, on both processes',
  async t => {
    const load = await underLoad()
    const hash = hashSecret(load.key)
    const steps = [
      [{ rpm_limit: 1_000_000 }, { status: 200, limit: '1000000' }],
      [{ scopes: 'embeddings' }, { status: 403, code: 'insufficient_scope' }],
      [
        { scopes: '*', model_allowlist: ['gpt-4o'] },
        { status: 403, code: 'model_not_allowed' },
      ],
      [
        { model_allowlist: ['gpt-4o', 'gpt-4o-mini'], rpm_limit: 900_000 },
        { status: 200, limit: '900000' },
      ],
      [{ disabled: true }, dead],
      [
        { disabled: false, rpm_limit: null },
        { status: 200, limit: null },
      ],
    ] as const
    for (const [i, [fields, expected]] of steps.entries()) {
      const later = await after(load, () => manage(webs[i % 2]!, 'PATCH', `/${hash}`, fields))
      all(t, later, expected)
    }
    await load.stop()
    t.false(load.samples.some(({ status }) => status >= 500))
  },
)
