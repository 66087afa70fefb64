import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../../dev/ports.ts'
import { after, Emulator, type Recorded, type Reply } from '../../emulators/emulator.ts'
import { type Account, eventually, freshStores, type Gateway, startGateway } from '../gateway.ts'
import type { ExecutionContext } from '../test.ts'
import { spendKinds } from '../wallet/money.ts'
import { type ProviderName, prices, prompt, whole } from './fault-replies.ts'
import { saying } from './gateway.ts'

/** What no client may ever see. */
export const upstreamSecret = 'upstream-secret-0123456789'

/** A model of a test's own, so that its circuit concerns no other test: who serves it, the first one first. */
export type FaultModel = { id: string; providers: string[]; quality?: number; contextLength?: number }

/** An OpenAI-compatible provider that tells its story whole unless a test scripts its answers for one model. */
export class Scripted {
  readonly name: ProviderName
  readonly url: string
  readonly #emulator: Emulator
  readonly #next: Map<string, Reply[]>
  readonly #always: Map<string, Reply>

  private constructor(name: ProviderName, emulator: Emulator, next: Map<string, Reply[]>, always: Map<string, Reply>) {
    this.name = name
    this.url = emulator.url
    this.#emulator = emulator
    this.#next = next
    this.#always = always
  }

  static async start(name: ProviderName): Promise<Scripted> {
    const next = new Map<string, Reply[]>()
    const always = new Map<string, Reply>()
    const emulator = await Emulator.start((request, response) => {
      const { model } = request.body
      const reply = next.get(model)?.shift() ?? always.get(model) ?? whole(name)
      return reply(request, response)
    })
    return new Scripted(name, emulator, next, always)
  }

  /** Answers the coming requests for a model with these replies, one each. */
  next(model: string, ...replies: Reply[]): void {
    this.#next.set(model, [...(this.#next.get(model) ?? []), ...replies])
  }

  /** Answers all further requests for a model so; null = with the whole story again. */
  always(model: string, reply: Reply | null): void {
    if (reply) this.#always.set(model, reply)
    else this.#always.delete(model)
  }

  /** Answers all further requests for a model as before, but so much later. */
  delay(model: string, ms: number): void {
    this.always(model, after(ms, this.#always.get(model) ?? whole(this.name)))
  }

  /** The requests for a model so far. */
  calls(model: string): Recorded[] {
    return this.#emulator.requests.filter(({ body }) => body.model === model)
  }

  /** All addresses that were called. */
  get paths(): Set<string> {
    return new Set(this.#emulator.requests.map(({ path }) => path))
  }

  close(): Promise<void> {
    return this.#emulator.close()
  }
}

/** A gateway over `p1` and the more expensive `p2`; of two more, `refusing` has no listener and `resetting` resets at once. */
export type FaultWorld = {
  gateway: Gateway
  p1: Scripted
  p2: Scripted
  /** Runs a case when its turn comes: as many at once as one process serves without a queue. */
  inTurn<T>(work: () => Promise<T>): Promise<T>
  /** Checks the invariants of the money, then stops everything. */
  close(t: ExecutionContext): Promise<void>
}

export async function startFaultWorld(models: FaultModel[], env: Record<string, string> = {}): Promise<FaultWorld> {
  const [stores, p1, p2] = await Promise.all([freshStores(), Scripted.start('p1'), Scripted.start('p2')])
  const resetting = await startResetting()
  const folder = await mkdtemp(join(tmpdir(), 'headgate-faults-'))
  const file = join(folder, 'catalog.json')
  await writeFile(file, JSON.stringify({ providers: providerRows, models: models.map(modelRow) }))
  const urls: [name: string, url: string][] = [
    ['P1', p1.url],
    ['P2', p2.url],
    ['REFUSING', `http://127.0.0.1:${await freePort()}`],
    ['RESETTING', `http://127.0.0.1:${(resetting.address() as AddressInfo).port}`],
  ]
  const providers = urls.flatMap(([name, url]) => [
    [`${name}_API_KEY`, upstreamSecret],
    [`${name}_BASE_URL`, `${url}/v1`],
  ])
  const gateway = await startGateway(stores, { MODEL_CATALOG: file, ...Object.fromEntries(providers), ...env })
  return {
    gateway,
    p1,
    p2,
    inTurn: turnstile(16),
    async close(t) {
      const breaches = await gateway.settled()
      await gateway.close()
      resetting.close()
      await Promise.all([p1.close(), p2.close(), stores.drop(), rm(folder, { recursive: true })])
      t.deepEqual(breaches, [])
    },
  }
}

const providerNames = ['p1', 'p2', 'refusing', 'resetting']
const providerRows = providerNames.map(name => ({
  name,
  protocol: 'openai',
  base_url: 'http://127.0.0.1:9/v1',
  auth: 'bearer',
}))

function modelRow({ id, providers, quality = 50, contextLength = 100_000 }: FaultModel) {
  return {
    id,
    name: id,
    type: 'chat',
    owned_by: 'test',
    created: 0,
    description: 'A model of one test.',
    context_length: contextLength,
    max_output_tokens: 1_000,
    input_modalities: ['text'],
    output_modalities: ['text'],
    supported_parameters: [],
    quality,
    expires_on: null,
    price_source: null,
    price_as_of: null,
    providers: providers.map(provider => ({ provider, upstream_model: id, price: priceOf(provider) })),
  }
}

function priceOf(provider: string) {
  const { input, output } = provider === 'p2' ? prices.p2 : prices.p1
  return { unit: 'token', input: String(input), output: String(output) }
}

async function startResetting(): Promise<Server> {
  const server = createServer(socket => void socket.resetAndDestroy()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}

function turnstile(max: number): FaultWorld['inTurn'] {
  let free = max
  const waiting: (() => void)[] = []
  return async work => {
    if (free > 0) free--
    else await new Promise<void>(resolve => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else free++
    }
  }
}

/** An answer as the client saw it. */
export type Answer = { status: number; headers: Headers; text: string }

export async function ask({ gateway }: FaultWorld, key: string, model: string, more: object = {}): Promise<Answer> {
  const response = await gateway.fetch('/v1/chat/completions', { key, body: saying(model, prompt.text, more) })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

/** What the gateway knows of a model at a provider now. */
export function figuresOf({ gateway }: FaultWorld, model: string, provider: string) {
  const { catalog, upstreams } = gateway.services
  const target = upstreams.targets(catalog.find(model)!, 'live').find(one => one.provider.name === provider)
  return upstreams.figures(target!)
}

/**
 * Asks while the first provider rests: should its rest end meanwhile, once more after the failures that then follow, which take
 * longer and longer, as a provider rests for as long as its failure took. Gives the answer, how often the provider was called for it,
 * and how long it was to rest when the request was sent.
 */
export async function askWhileResting(world: FaultWorld, key: string, model: string, more: object, named = model) {
  for (let tries = 0; tries < 20; tries++) {
    const before = restOf(world, model)
    const callsBefore = world.p1.calls(model).length
    const answer = await ask(world, key, named, more)
    const now = restOf(world, model)
    // One that began meanwhile ends later than the first by as much as it lasts.
    if (now.ms > 0 && now.endsAtMs < before.endsAtMs + minRestMs / 2)
      return { answer, calls: world.p1.calls(model).length - callsBefore, maxRestMs: before.ms }
    world.p1.delay(model, minRestMs)
  }
  throw new Error(`${model} at p1 never rested for as long as a request takes`)
}

const minRestMs = 1_000

function restOf(world: FaultWorld, model: string) {
  const { cooldownMs } = figuresOf(world, model, 'p1')
  return { ms: cooldownMs, endsAtMs: performance.now() + cooldownMs }
}

/** The line of the request log that an answer has, once it is booked; throws when anything is still reserved for it. */
export async function bookedOf({ gateway }: FaultWorld, { organisationId }: Account, { headers }: Answer) {
  const { db, wallets } = gateway.services
  const id = headers.get('x-generation-id')!
  await eventually(async () => (await db.generation.count({ where: { id } })) > 0, `generation ${id} is booked`)
  const rows = await db.generation.findMany({ where: { id } })
  if (rows.length !== 1) throw new Error(`generation ${id} is booked ${rows.length} times`)
  const { reservedNano } = await wallets.view(organisationId)
  if (reservedNano !== 0n) throw new Error(`${reservedNano} nano-dollars are still reserved`)
  return rows[0]!
}

/** The total charges booked for an organisation. */
export async function paidNano({ gateway }: FaultWorld, { organisationId }: Account): Promise<number> {
  const where = { organisationId, kind: { in: [...spendKinds] } }
  const { _sum } = await gateway.services.db.ledgerEntry.aggregate({ where, _sum: { amountNano: true } })
  return 0 - Number(_sum.amountNano ?? 0n)
}
