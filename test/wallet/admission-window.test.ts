import fc from 'fast-check'
import { Redis } from 'ioredis'
import { GatewayError } from '../../shared/base/errors.ts'
import { newId } from '../../shared/base/ids.ts'
import { type Clock, systemClock } from '../../shared/base/time.ts'
import { openDatabase } from '../../shared/io/db.ts'
import { createLog } from '../../shared/io/log.ts'
import { Admission, type BillingContext, type Reservation } from '../../shared/wallet/admission.ts'
import { flatCost } from '../../shared/wallet/reservation.ts'
import { loadScripts } from '../../shared/wallet/scripts.ts'
import { Wallets } from '../../shared/wallet/wallets.ts'
import { useRedisTime } from '../support/io/redis-time.ts'
import { test } from '../support/test.ts'
import { use, useStores } from '../support/use.ts'
import { testClock } from '../support/wallet/money.ts'

const stores = useStores(test)
const redis = use(
  test,
  () => new Redis(stores.redisUrl),
  it => it.disconnect(),
)
test.before(() => {
  useRedisTime(redis, clock)
})
const db = use(
  test,
  () => openDatabase(stores.databaseUrl, { connections: 1, statementTimeoutMs: 30_000 }),
  it => it.$disconnect(),
)

/** What Redis' clock says. */
const clock = testClock('2027-03-10T12:00:00Z')

/** The gate of one process, whose own clock goes as it likes. */
function gate(own: Clock = systemClock): Admission {
  const scripts = loadScripts(redis)
  const wallets = new Wallets({ db, redis, scripts, clock: own })
  return new Admission({
    scripts,
    wallets,
    clock: own,
    log: createLog('silent'),
    deadlineMs: 60_000,
  })
}

function limited(limits: { rpm?: number; tpm?: number }): BillingContext {
  const keyId = newId('key')
  return {
    hash: newId('key'),
    version: 1,
    keyId,
    rateKey: keyId,
    organisationId: newId('org'),
    expiresAtMs: null,
    rpmLimit: limits.rpm ?? null,
    tpmLimit: limits.tpm ?? null,
    capNano: null,
    spendsMoney: false,
  }
}

/** A reservation, or how many seconds to wait. */
async function ask(admission: Admission, billing: BillingContext, tokens = 0): Promise<Reservation | number> {
  const bound = { ...flatCost(0), estimatedTokens: tokens }
  try {
    return (await admission.admit(billing, '-', newId('req'), bound)) as Reservation
  } catch (error) {
    if (!(error instanceof GatewayError) || error.code !== 'rate_limit_exceeded') throw error
    return Number(error.headers['retry-after'])
  }
}

const isReservation = (answer: Reservation | number): answer is Reservation => typeof answer !== 'number'

const windowMs = 60_000
type Entry = { atMs: number; amount: number; reservation: Reservation }

/** The definition: every admitted request with what it counts. */
class ExactLog {
  readonly #entries: Entry[] = []

  add(entry: Entry): void {
    this.#entries.push(entry)
  }

  /** What the last 60 seconds hold. */
  used(nowMs: number): number {
    return this.#entries.reduce((sum, { atMs, amount }) => sum + (atMs > nowMs - windowMs ? amount : 0), 0)
  }

  /** Until `room` is free, if nothing else comes. */
  waitMs(nowMs: number, limit: number, amount: number): number {
    const leaving = this.#entries.map(({ atMs }) => atMs + windowMs - nowMs).filter(waitMs => waitMs > 0)
    return [0, ...leaving.sort((a, b) => a - b)].find(waitMs => this.used(nowMs + waitMs) + amount <= limit)!
  }

  /** One of the requests, newest first. */
  at(index: number): Entry | undefined {
    return this.#entries.at(-1 - (index % Math.max(1, this.#entries.length)))
  }
}

/** Two neighbours hold more than a twentieth of the limit: 40 pairs and one, and the newest. */
const maxBuckets = 42

async function bucketCount({ keyId }: BillingContext, what: 'requests' | 'tokens'): Promise<number> {
  const count = "local log = redis.call('GET', KEYS[1]) return log and (#cmsgpack.unpack(log) - 1) / 2 or 0"
  return (await redis.eval(count, 1, `window:${keyId}:${what}`)) as number
}

/** Waits around the edges of buckets and windows, and any others. */
const waits = fc.oneof(
  fc.constantFrom(0, 0, 1, 59_999, 60_000, 60_001, 30_000),
  fc.nat(100),
  fc.nat(3_000),
  fc.nat(40_000),
)
const steps = fc.array(
  fc.oneof(
    /** Asks `times` times at once; one that keeps to the limit asks only for what the exact log has room for. */
    fc.record({
      waitMs: waits,
      /** Of the limit. */
      share: fc.constantFrom(0, 0.001, 0.01, 0.04, 0.05, 0.06, 0.3, 1, 3),
      times: fc.constantFrom(1, 1, 2, 7, 40),
      keeps: fc.boolean(),
      retries: fc.boolean(),
    }),
    /** One of the last requests turns out to have been smaller. */
    fc.record({ waitMs: waits, settles: fc.nat(60), to: fc.double({ min: 0, max: 1, noNaN: true }) }),
  ),
  { minLength: 5, maxLength: 30 },
)

for (const what of ['requests', 'tokens'] as const) {
  const name = { requests: 'rpm', tokens: 'tpm' }[what]
  test.serial(
    `429 for no request within ${name}, never more than 105 % of it in 60 s, as an exact log has it`,
    async t => {
      const property = fc.asyncProperty(fc.integer({ min: 1, max: 1_000 }), steps, async (limit, history) => {
        clock.advance(2 * windowMs)
        const admission = gate()
        const billing = limited({ [name]: limit })
        const exact = new ExactLog()
        const fail = (message: string) => {
          throw new Error(`${message}: used ${exact.used(clock.now())} of ${limit}`)
        }
        const ask1 = async (amount: number) => {
          const fits = exact.used(clock.now()) + amount <= limit
          const answer = await ask(admission, billing, amount)
          if (!isReservation(answer)) {
            if (fits) fail(`refused ${amount}`)
            if (answer > Math.ceil(exact.waitMs(clock.now(), limit, amount) / 1_000)) fail(`told to wait ${answer} s`)
            return answer
          }
          exact.add({ atMs: clock.now(), amount, reservation: answer })
          const used = exact.used(clock.now())
          if (used > limit * 1.05) fail(`admitted ${amount}`)
          const { remaining, resetMs } = answer.rates[what]!
          if (remaining < limit - used || remaining > limit * 1.05 - used) fail(`told that ${remaining} are left`)
          if (resetMs > windowMs) fail(`told ${resetMs} ms`)
          return 0
        }
        for (const step of history) {
          clock.advance(step.waitMs)
          if ('settles' in step) {
            const entry = exact.at(step.settles)
            if (what === 'requests' || !entry || entry.amount === 0) continue
            const tokens = Math.floor(entry.amount * step.to)
            admission.settle(entry.reservation, 0, tokens, null)
            await admission.flush()
            entry.reservation.countedTokens = tokens
            entry.amount = tokens
            continue
          }
          const amount = what === 'requests' ? 1 : Math.min(limit, Math.ceil(step.share * limit))
          for (let i = 0; i < step.times; i++) {
            if (step.keeps) clock.advance(exact.waitMs(clock.now(), limit, amount))
            const waitS = await ask1(amount)
            if (waitS === 0 || !step.retries) continue
            clock.advance(waitS * 1_000)
            if ((await ask1(amount)) > 0) fail(`refused after the ${waitS} s it was told to wait`)
          }
        }
        if ((await bucketCount(billing, what)) > maxBuckets) fail('too many buckets are kept')
      })
      await t.notThrowsAsync(fc.assert(property, { numRuns: 60 }))
    },
  )
}

test.serial('429 for none of a client that sends what the limit allows again each minute', async t => {
  const admission = gate()
  const billing = limited({ rpm: 100, tpm: 10_000 })
  for (let minute = 0; minute < 3; minute++) {
    for (let i = 0; i < 100; i++) t.true(isReservation(await ask(admission, billing, 100)), `${minute}:${i}`)
    clock.advance(windowMs)
  }
})

test.serial('429 for the same burst a moment before its minute is over, and for a steady flow after it', async t => {
  const admission = gate()
  const billing = limited({ rpm: 100 })
  for (let i = 0; i < 100; i++) t.true(isReservation(await ask(admission, billing)))
  let admitted = 0
  for (let ms = 0; ms < windowMs - 500; ms += 500) {
    clock.advance(500)
    if (isReservation(await ask(admission, billing))) admitted++
  }
  t.is(admitted, 0)
  clock.advance(499)
  t.is(await ask(admission, billing), 1)
  clock.advance(1)
  t.true(isReservation(await ask(admission, billing)))
})

test.serial('429 with the time until both limits, requests and tokens, have room', async t => {
  const admission = gate()
  const billing = limited({ rpm: 2, tpm: 100 })
  for (const tokens of [90, 10]) t.true(isReservation(await ask(admission, billing, tokens)))
  const wait = (await ask(admission, billing, 100)) as number
  clock.advance(wait * 1_000)
  t.true(isReservation(await ask(admission, billing, 100)))
})

test.serial('429 at the limit however the clocks of the processes differ', async t => {
  const gates = [0, 40_000, -3_600_000].map(aheadMs => gate({ now: () => Date.now() + aheadMs }))
  const billing = limited({ rpm: 10 })
  let admitted = 0
  for (let i = 0; i < 40; i++) if (isReservation(await ask(gates[i % 3]!, billing))) admitted++
  t.is(admitted, 10)
})

test.serial(
  '429 at the limit when Redis’ clock is set back; 200 when it is set back by more than a minute',
  async t => {
    const admission = gate()
    const billing = limited({ rpm: 10 })
    for (let i = 0; i < 10; i++) t.true(isReservation(await ask(admission, billing)))
    clock.advance(-20_000)
    t.is(await ask(admission, billing), 60)
    clock.advance(-41_000)
    t.true(isReservation(await ask(admission, billing)))
    clock.advance(61_000)
  },
)

test.serial('429 counts every request of one event-loop turn once, over two processes', async t => {
  const gates = [gate(), gate()]
  const billing = limited({ rpm: 300 })
  const answers = await Promise.all(Array.from({ length: 1_000 }, (_, i) => ask(gates[i % 2]!, billing)))
  t.is(answers.filter(isReservation).length, 300)
})

test.serial('429 and 200 as a new limit has it, at once', async t => {
  const admission = gate()
  const billing = limited({ rpm: 10 })
  for (let i = 0; i < 10; i++) t.true(isReservation(await ask(admission, billing)))
  for (let i = 0; i < 90; i++) t.true(isReservation(await ask(admission, { ...billing, rpmLimit: 100 })), String(i))
  t.is(await ask(admission, { ...billing, rpmLimit: 100 }), 60)
  clock.advance(30_000)
  t.is(await ask(admission, { ...billing, rpmLimit: 5 }), 30)
  clock.advance(30_000)
  t.true(isReservation(await ask(admission, { ...billing, rpmLimit: 5 })))
})

test.serial('200 after a settlement corrected the bucket that a request was counted in, and no other', async t => {
  const admission = gate()
  const billing = limited({ tpm: 1_000 })
  const first = (await ask(admission, billing, 900)) as Reservation
  clock.advance(1)
  const second = (await ask(admission, billing, 100)) as Reservation
  admission.settle(first, 0, 300, null)
  await admission.flush()
  t.is(((await ask(admission, billing)) as Reservation).rates.tokens!.remaining, 600)
  clock.advance(59_999)
  t.is(((await ask(admission, billing)) as Reservation).rates.tokens!.remaining, 900)
  clock.advance(1)
  const third = (await ask(admission, billing, 40)) as Reservation
  // The bucket of the second has left, and its tokens with it.
  admission.settle(second, 0, 900, null)
  await admission.flush()
  t.is(((await ask(admission, billing)) as Reservation).rates.tokens!.remaining, 960)
  // What was used beyond the estimate counts until it leaves.
  admission.settle(third, 0, 1_200, null)
  await admission.flush()
  t.is(await ask(admission, billing), 60)
  clock.advance(60_000)
  t.true(isReservation(await ask(admission, billing, 1_000)))
})

test.serial('200 when requests of one instant are in two buckets and turn out to be smaller', async t => {
  const admission = gate()
  const billing = limited({ tpm: 80 })
  t.true(isReservation(await ask(admission, billing, 0)))
  clock.advance(30_000)
  const [older, newer] = [await ask(admission, billing, 4), await ask(admission, billing, 4)]
  for (const reservation of [older, newer]) admission.settle(reservation as Reservation, 0, 0, null)
  await admission.flush()
  t.true(isReservation(await ask(admission, billing, 80)))
})

test.serial('200 keeps a few buckets however many large estimates turn out to be small', async t => {
  const admission = gate()
  const billing = limited({ tpm: 1_000_000 })
  for (let i = 0; i < 400; i++) {
    const reservation = (await ask(admission, billing, 300_000)) as Reservation
    admission.settle(reservation, 0, 500, null)
    await admission.flush()
    clock.advance(100)
  }
  t.is(((await ask(admission, billing)) as Reservation).rates.tokens!.remaining, 800_000)
  t.true((await bucketCount(billing, 'tokens')) <= maxBuckets)
})
