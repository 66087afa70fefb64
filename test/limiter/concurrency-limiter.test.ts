import { getEventListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { GatewayError } from '../../shared/base/errors.ts'
import { openRequestRedis, primariesOf, type Redis, waitUntilReady } from '../../shared/io/redis.ts'
import { ConcurrencyLimiter, type Permit } from '../../shared/limiter/concurrency-limiter.ts'
import { monotonicAt } from '../support/clocks/monotonic.ts'
import { eventually } from '../support/gateway.ts'
import { freshRedis, privateRedis } from '../support/stack.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use } from '../support/use.ts'

const stores = use(test, freshRedis)

/** A worker as far as its limiter goes. */
type Worker = { limiter: ConcurrencyLimiter; redis: Redis; commands(): number; die(): void }

type Shared = {
  limit: number
  doubling: boolean
  epoch: number
  refusals: number
  rest_until: number
  grown_at: number
  at: number
  leases: Record<string, object>
}

const never = new AbortController().signal

/** A process that stands still for longer than its lease counts as dead: a busy machine must not decide what a test sees. */
const patientLeaseMs = 60_000
/** Where workers die, or Redis does: as in the product. */
const usualLeaseMs = 3_000

/** Workers with one provider, which is each test's own. */
class World {
  readonly #t: ExecutionContext
  readonly #url: string
  readonly #max: number
  readonly #leaseMs: number
  /** What all clocks are ahead of the time. */
  aheadMs = 0
  /** Calls in flight now, of all workers that live, and the most there ever were. */
  readonly inFlight = new Map<Worker, number>()
  peak = 0
  /** How many calls were begun. */
  begun = 0

  constructor(t: ExecutionContext, max = 128, leaseMs = patientLeaseMs, url = stores.url) {
    this.#t = t
    this.#url = url
    this.#max = max
    this.#leaseMs = leaseMs
  }

  async worker(): Promise<Worker> {
    // A busy machine is not what these tests are about.
    const redis = primariesOf(openRequestRedis({ redisUrl: this.#url, redisTlsVerify: true }, 60_000))[0]!
    redis.on('error', () => {})
    await waitUntilReady(redis, 60_000)
    const monotonic = { now: () => monotonicAt(Date.now() + this.aheadMs) }
    const limiter = new ConcurrencyLimiter({ redis, monotonic, max: this.#max, leaseMs: this.#leaseMs })
    let commands = 0
    const send = redis.sendCommand.bind(redis)
    redis.sendCommand = (...args) => {
      commands++
      return send(...args)
    }
    const die = () => {
      this.inFlight.delete(worker)
      redis.disconnect()
    }
    const worker: Worker = { limiter, redis, commands: () => commands, die }
    this.inFlight.set(worker, 0)
    this.#t.teardown(() => {
      limiter.close()
      redis.disconnect()
    })
    return worker
  }

  enter({ limiter }: Worker, deadlineMs = 0, signal = never, owner = 'org'): Promise<Permit> {
    return limiter.acquire(this.#t.title, { owner, deadlineMs, signal })
  }

  /** Enters so often at once, and counts what is in flight until it ends. */
  crowd(worker: Worker, size: number): Permit[] {
    const permits: Permit[] = []
    for (let i = 0; i < size; i++) void this.#counted(worker).then(permit => permit && permits.push(permit))
    return permits
  }

  /** As many clients as `clients`, each with one call after the other of `callMs`, until `isOver`. */
  async drive(worker: Worker, clients: number, isOver: () => boolean, callMs: () => number = () => 2): Promise<void> {
    const client = async () => {
      while (!isOver()) {
        const permit = await this.#counted(worker)
        if (!permit) return
        await sleep(callMs())
        permit.release('answered')
      }
    }
    await Promise.all(Array.from({ length: clients }, client))
  }

  /** Null once the worker is dead. */
  async #counted(worker: Worker): Promise<Permit | null> {
    const permit = await this.enter(worker).catch(() => null)
    if (!permit || !this.inFlight.has(worker)) return null
    this.#count(worker, 1)
    this.begun++
    let isOver = false
    const release: Permit['release'] = (outcome, retryAfterMs) => {
      if (!isOver) this.#count(worker, -1)
      isOver = true
      permit.release(outcome, retryAfterMs)
    }
    return { release }
  }

  #count(worker: Worker, by: number): void {
    const count = this.inFlight.get(worker)
    if (count === undefined) return
    this.inFlight.set(worker, count + by)
    this.peak = Math.max(this.peak, this.total)
  }

  get total(): number {
    return [...this.inFlight.values()].reduce((sum, count) => sum + count, 0)
  }

  async shared({ redis }: Worker): Promise<Shared> {
    return JSON.parse((await redis.get(`lane:${this.#t.title}`)) ?? 'null')
  }

  /** Waits until each of these workers has exchanged its share again, after the exchange that may be under way. */
  async exchanged(...workers: readonly Worker[]): Promise<void> {
    const before = workers.map(worker => worker.commands())
    const isDone = () => workers.every((worker, i) => worker.commands() >= before[i]! + 2)
    await eventually(isDone, 'the shares are exchanged')
  }

  /** Grows the limit to its maximum, and waits until the results of all calls are reported. */
  async grow(worker: Worker): Promise<void> {
    await this.drive(worker, 2 * this.#max, () => this.peak === this.#max)
    const isReturned = async () => Object.keys((await this.shared(worker)).leases).length === 0
    await eventually(isReturned, 'the share is given back')
  }

  /** Holds as many calls as there may be. */
  async full(worker: Worker, count: number): Promise<Permit[]> {
    const permits = this.crowd(worker, count)
    await eventually(() => permits.length === count, `${count} calls are in flight`)
    return permits
  }
}

async function refusal(t: ExecutionContext, entering: Promise<Permit>): Promise<GatewayError> {
  return (await t.throwsAsync(entering)) as GatewayError
}

test('16 calls at first, and no more without an answer', async t => {
  const world = new World(t)
  const [one, other] = [await world.worker(), await world.worker()]
  const crowds = [world.crowd(one, 40), world.crowd(other, 40)]
  await eventually(() => world.total === 16, '16 calls are in flight')
  await world.exchanged(one, other)
  t.is(world.total, 16)
  for (const permit of crowds.flat()) permit.release('failed')
  await eventually(() => world.begun > 16, 'failed calls make room')
  t.is((await world.shared(one)).limit, 16)
  t.true(world.peak <= 16)
})

test('128 in flight at most, 64 for each of two workers', async t => {
  const world = new World(t)
  const workers = [await world.worker(), await world.worker()]
  let isOver = false
  const driven = workers.map(worker => world.drive(worker, 200, () => isOver))
  await eventually(() => world.total === 128, 'the limit is reached')
  const fair = () => workers.every(worker => world.inFlight.get(worker) === 64)
  await eventually(fair, 'each has its half')
  isOver = true
  await Promise.all(driven)
  t.is(world.peak, 128)
})

test('calls go on, and the limit grows, although Redis’ clock was set back since the last one', async t => {
  const world = new World(t)
  const worker = await world.worker()
  ;(await world.enter(worker)).release('answered')
  await eventually(async () => (await world.shared(worker)) !== null, 'the limit is shared')
  const state = await world.shared(worker)
  const later = Date.now() + 400 * 24 * 3_600_000
  const leases = { dead: { wanted: 200, held: 128, ends: later + 100 } }
  const before = { ...state, at: later, rest_until: later + 100, grown_at: later + 100, doubling: false, leases }
  await worker.redis.set(`lane:${t.title}`, JSON.stringify(before))
  let hasGrown = false
  const driven = world.drive(worker, 64, () => hasGrown)
  await eventually(async () => (await world.shared(worker)).limit > state.limit, 'the limit grows')
  hasGrown = true
  await driven
  const { at, rest_until, grown_at } = await world.shared(worker)
  t.true(Math.max(at, rest_until, grown_at) < later)
})

test('no growth while the limit is not used', async t => {
  const world = new World(t)
  const worker = await world.worker()
  await world.drive(worker, 8, () => world.begun > 1_000)
  const { limit } = await world.shared(worker)
  t.true(limit <= 24, `${limit}: at first they may have to wait for a share`)
})

test.serial('bounded: some commands for thousands of calls, none without calls', async t => {
  const world = new World(t)
  const [busy, idle, watching] = [await world.worker(), await world.worker(), await world.worker()]
  await world.drive(busy, 64, () => world.begun > 4_000)
  t.true(busy.commands() < 200, `${busy.commands()} commands`)
  await eventually(
    async () => Object.keys((await world.shared(watching)).leases).length === 0,
    'the share is given back',
  )
  const quiet = busy.commands()
  // What has calls exchanges twice a second.
  const permit = await world.enter(watching)
  await world.exchanged(watching)
  permit.release('answered')
  t.is(busy.commands(), quiet)
  t.is(idle.commands(), 0)
})

test('never more than the limit while workers come, go and die', async t => {
  const max = 7
  const world = new World(t, max, usualLeaseMs)
  const living: Worker[] = []
  const driven: Promise<void>[] = []
  const deadlineMs = Date.now() + 200_000
  const isDone = () => world.begun > 200 || Date.now() > deadlineMs
  while (!isDone()) {
    if (living.length < 4 && Math.random() < 0.5) {
      const worker = await world.worker()
      living.push(worker)
      const isOver = () => isDone() || !world.inFlight.has(worker)
      driven.push(world.drive(worker, 1 + Math.floor(Math.random() * 8), isOver, () => Math.random() * 60))
    } else if (living.length > 1 && Math.random() < 0.3) {
      const [worker] = living.splice(Math.floor(Math.random() * living.length), 1)
      if (Math.random() < 0.5) worker!.die()
      worker!.limiter.close()
    }
    const next = world.begun + Math.random() * 20
    await eventually(() => world.begun >= next || living.length === 0 || isDone(), 'calls are begun')
  }
  await Promise.all(driven)
  t.true(world.peak <= max, `${world.peak} in flight`)
  t.true(world.begun > 200, `${world.begun} begun`)
})

test('half the limit, once, and a pause on every worker after a burst of refusals', async t => {
  const world = new World(t, 32)
  const [one, other] = [await world.worker(), await world.worker()]
  await world.grow(one)
  const crowds = [world.crowd(one, 40), world.crowd(other, 40)]
  await eventually(() => world.total === 32, 'all are in flight')
  const permits = crowds.flat()
  const { epoch } = await world.shared(one)
  const before = world.begun
  const untilMs = Date.now() + 1_500
  for (const permit of permits.slice(0, 20)) permit.release('limited', 1_500)
  await eventually(async () => (await world.shared(one)).epoch !== epoch, 'the limit is cut')
  for (const permit of permits.slice(20)) permit.release('limited', 1)
  await eventually(() => world.begun > before, 'the pause is over')
  t.true(Date.now() >= untilMs)
  await eventually(() => world.total === 16, 'half is in flight')
  await world.exchanged(one, other)
  t.is(world.total, 16)
  t.is((await world.shared(one)).limit, 16)
})

test('the same limit, and no pause, after some calls found the provider overloaded', async t => {
  const world = new World(t)
  const worker = await world.worker()
  const permits = await world.full(worker, 16)
  const { epoch } = await world.shared(worker)
  for (const permit of permits) permit.release('overloaded')
  await world.grow(worker)
  t.like(await world.shared(worker), { limit: 128, doubling: true, epoch, rest_until: 0 })
})

test('half the limit, and no pause, after more than a quarter of the calls found the provider overloaded', async t => {
  const world = new World(t, 32)
  const worker = await world.worker()
  await world.grow(worker)
  const permits = await world.full(worker, 32)
  for (const [i, permit] of permits.entries()) permit.release(i < 2 ? 'answered' : 'overloaded')
  await eventually(async () => (await world.shared(worker)).limit < 32, 'the limit is cut')
  t.like(await world.shared(worker), { limit: 16, doubling: false, rest_until: 0 })
})

test('half the limit and a pause that grows while the provider answers nothing at all', async t => {
  const world = new World(t)
  const worker = await world.worker()
  for (let cuts = 1; cuts <= 2; cuts++) {
    const { limit } = (await world.shared(worker)) ?? { limit: 16 }
    const fromMs = Date.now()
    for (let i = 0; i < 17; i++) (await world.enter(worker)).release('overloaded')
    await eventually(async () => (await world.shared(worker)).refusals === cuts, 'the limit is cut')
    const { rest_until, ...after } = await world.shared(worker)
    t.like(after, { limit: limit / 2, doubling: true })
    t.true(rest_until >= fromMs + 750 * 2 ** (cuts - 1))
  }
})

test('a pause, but the same limit, after one call was limited', async t => {
  const world = new World(t)
  const worker = await world.worker()
  const [permit] = await world.full(worker, 16)
  permit!.release('limited', 1_500)
  await eventually(async () => (await world.shared(worker)).rest_until > 0, 'the provider is paused')
  t.like(await world.shared(worker), { limit: 16, doubling: false })
})

test('slow growth after a burst of refusals', async t => {
  const world = new World(t, 32)
  const worker = await world.worker()
  await world.grow(worker)
  for (const permit of await world.full(worker, 32)) permit.release('limited', 1)
  await eventually(async () => (await world.shared(worker)).limit === 16, 'the limit is cut')
  const { rest_until } = await world.shared(worker)
  let hasGrown = false
  await world.drive(worker, 64, () => (hasGrown ||= world.total >= 18))
  const { limit } = await world.shared(worker)
  const [seconds] = await worker.redis.time()
  t.true(limit >= 18 && limit <= 16 + (seconds! + 1 - rest_until / 1_000), `${limit}`)
})

test('a pause that grows while refusals come without a time and without an answer', async t => {
  const world = new World(t, 1)
  const worker = await world.worker()
  const inARow: number[] = []
  for (let i = 0; i < 3; i++) {
    if (i === 2) (await world.enter(worker)).release('answered')
    const permit = await world.enter(worker)
    const { epoch } = await world.shared(worker)
    const refusedMs = Date.now()
    permit.release('limited')
    await eventually(async () => (await world.shared(worker)).epoch !== epoch, 'the limit is cut')
    const { limit, refusals, rest_until } = await world.shared(worker)
    t.is(limit, 1)
    t.true(rest_until - refusedMs >= 750 * 2 ** (refusals - 1))
    inARow.push(refusals)
  }
  t.deepEqual(inARow, [1, 2, 1])
})

test('a call that fails or ends twice frees its place once', async t => {
  const world = new World(t, 1)
  const worker = await world.worker()
  const permit = await world.enter(worker)
  const waiting = world.crowd(worker, 2)
  permit.release('failed')
  permit.release('limited', 60_000)
  permit.release('answered')
  await eventually(() => waiting.length === 1, 'one is let in')
  await world.exchanged(worker)
  t.is(waiting.length, 1)
})

test('the earliest deadline first, then the first to arrive', async t => {
  const world = new World(t, 1)
  const worker = await world.worker()
  const first = await world.enter(worker)
  const came: string[] = []
  const deadlines = [500, 100, 300, 100, 200, 500, 400, 100]
  const entered = deadlines.map((deadlineMs, i) =>
    world.enter(worker, deadlineMs).then(permit => {
      came.push(`${deadlineMs}-${i}`)
      permit.release('answered')
    }),
  )
  first.release('answered')
  await Promise.all(entered)
  t.deepEqual(came, ['100-1', '100-3', '100-7', '200-4', '300-2', '400-6', '500-0', '500-5'])
})

test('aborted turns leave their place and their signal', async t => {
  const world = new World(t, 1)
  const worker = await world.worker()
  const leaving = new AbortController()
  const reason = new Error('gone')
  const first = await world.enter(worker)
  const entering = [0, 0, 0].map(() => world.enter(worker, 0, leaving.signal))
  const staying = new AbortController()
  const last = world.enter(worker, 1, staying.signal)
  t.is(getEventListeners(leaving.signal, 'abort').length, 3)
  leaving.abort(reason)
  for (const one of await Promise.allSettled([...entering, world.enter(worker, 0, leaving.signal)]))
    t.like(one, { status: 'rejected', reason })
  first.release('answered')
  await last
  for (const { signal } of [leaving, staying]) t.is(getEventListeners(signal, 'abort').length, 0)
})

test('503 after a minute of waiting for a permit', async t => {
  const world = new World(t, 1)
  const worker = await world.worker()
  await world.enter(worker)
  const entering = world.enter(worker)
  world.aheadMs += 60_001
  const error = await refusal(t, entering)
  t.like(error, { code: 'no_provider_available', status: 503, headers: { 'retry-after': '10' } })
})

test('503 at once on every worker while the provider asks for a longer pause than the longest wait', async t => {
  const world = new World(t, 2)
  const [one, other] = [await world.worker(), await world.worker()]
  const permit = await world.enter(one)
  await world.enter(one)
  const waiting = [world.enter(one), world.enter(other)]
  permit.release('limited', 24 * 3_600_000)
  for (const entering of [...waiting, world.enter(one)]) {
    const error = await refusal(t, entering)
    t.is(error.code, 'no_provider_available')
    const seconds = Number(error.headers['retry-after'])
    t.true(seconds > 3_590 && seconds <= 3_600, `${seconds}`)
  }
})

test('503 when ten thousand calls wait for a permit already', async t => {
  const world = new World(t, 1)
  const worker = await world.worker()
  await world.enter(worker)
  const waiting = Array.from({ length: 10_000 }, () => world.enter(worker))
  t.is((await refusal(t, world.enter(worker))).code, 'no_provider_available')
  worker.limiter.close()
  const ends = await Promise.allSettled(waiting)
  t.true(ends.every(end => end.status === 'rejected' && end.reason.status === 503))
})

test('the share of a worker that dies, closes or has no more to do is given to others', async t => {
  const world = new World(t, 4, usualLeaseMs)
  const [dying, closing, ending, heir] = [
    await world.worker(),
    await world.worker(),
    await world.worker(),
    await world.worker(),
  ]
  await world.full(dying, 4)
  dying.die()
  await world.full(closing, 4)
  world.inFlight.set(closing, 0)
  closing.limiter.close()
  const permits = await world.full(ending, 4)
  const waiting = world.crowd(heir, 4)
  for (const permit of permits) permit.release('failed')
  await eventually(() => waiting.length === 4, 'the last one has it all')
  t.is(world.peak, 4)
  await t.throwsAsync(world.enter(closing), { message: /shutting down/ })
})

test('a worker that closes keeps what its calls in flight occupy', async t => {
  const world = new World(t, 4)
  const [closing, heir] = [await world.worker(), await world.worker()]
  await world.full(closing, 3)
  closing.limiter.close()
  const waiting = world.crowd(heir, 4)
  await eventually(() => waiting.length > 0, 'the rest is given to the other')
  await world.exchanged(heir)
  t.is(world.total, 4)
})

test('rotated: a limit of 1 between two workers', async t => {
  const world = new World(t, 1)
  const workers = [await world.worker(), await world.worker()]
  const served = new Set<Worker>()
  const isOver = () => served.size === 2
  const driven = workers.map(worker =>
    world.drive(worker, 3, isOver, () => {
      served.add(worker)
      return 5
    }),
  )
  await Promise.all(driven)
  t.is(world.peak, 1)
})

test('kept until the lease ends, then two calls per worker, while Redis is away', async t => {
  const server = await privateRedis()
  t.teardown(() => server.stop())
  const world = new World(t, 8, patientLeaseMs, server.url)
  const [worker, late] = [await world.worker(), await world.worker()]
  await world.full(worker, 1)
  await server.kill()
  const permits = await world.full(worker, 7)
  t.is(world.total, 8)
  const few = world.crowd(late, 5)
  await eventually(() => few.length === 2, 'who has no share takes a little')
  world.aheadMs += patientLeaseMs
  const waiting = world.crowd(worker, 5)
  for (const permit of permits.slice(0, 6)) permit.release('answered')
  await world.exchanged(worker)
  t.is(waiting.length, 0)
  permits[6]!.release('answered')
  await eventually(() => waiting.length === 1, 'a little is let in')
  await server.restart()
  await eventually(() => waiting.length + few.length > 5, 'all is well again')
  t.true(world.total <= 8)
})

test('the next call is let in after the only one was given up while Redis did not answer', async t => {
  const server = await privateRedis()
  t.teardown(() => server.stop())
  const world = new World(t, 8, usualLeaseMs, server.url)
  const worker = await world.worker()
  await server.kill()
  const givenUp = new AbortController()
  const entering = t.throwsAsync(world.enter(worker, 0, givenUp.signal), { name: 'AbortError' })
  givenUp.abort()
  await entering
  await server.restart()
  await waitUntilReady(worker.redis, 60_000)
  const permits = world.crowd(worker, 1)
  await eventually(() => permits.length === 1, 'it is let in', 10_000)
})

test('admitted by turns: the first waiter of the owner with the fewest calls in flight', async t => {
  const world = new World(t, 1)
  const worker = await world.worker()
  const first = await world.enter(worker, 0, never, 'many')
  const order: string[] = []
  const entering = (name: string, deadlineMs: number, owner: string) =>
    world.enter(worker, deadlineMs, never, owner).then(permit => {
      order.push(name)
      permit.release('answered')
    })
  const all = ['a', 'b', 'c'].map((name, i) => entering(name, i, 'many'))
  all.push(entering('late', 900, 'few'), entering('soon', 800, 'few'), entering('other', 700, 'third'))
  first.release('answered')
  await Promise.all(all)
  t.deepEqual(order, ['a', 'b', 'c', 'other', 'soon', 'late'], 'no owner has a call in flight')
})

test('let in by turns while others have calls under way', async t => {
  const world = new World(t, 2)
  const worker = await world.worker()
  const held = [await world.enter(worker, 0, never, 'many'), await world.enter(worker, 0, never, 'many')]
  const order: string[] = []
  const entering = async (name: string, deadlineMs: number, owner: string) => {
    const permit = await world.enter(worker, deadlineMs, never, owner)
    order.push(name)
    return permit
  }
  const all = [entering('a', 0, 'many'), entering('b', 0, 'many'), entering('few', 900, 'few')]
  held[0]!.release('answered')
  const permit = await all[2]!
  t.deepEqual(order, ['few'])
  permit.release('answered')
  held[1]!.release('answered')
  for (const turn of all.slice(0, 2)) (await turn).release('answered')
  t.deepEqual(order, ['few', 'a', 'b'])
})
