import test from 'ava'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import { GatewayError } from '../shared/base/errors.ts'
import { newId } from '../shared/base/ids.ts'
import { type Database, openDatabase } from '../shared/io/db.ts'
import { createLog } from '../shared/io/log.ts'
import { Accounts } from '../shared/wallet/accounts.ts'
import { Admission, type Spender, type Ticket } from '../shared/wallet/admission.ts'
import { loadScripts } from '../shared/wallet/scripts.ts'
import { freshStores, type Stores } from './support/gateway.ts'
import { type TestClock, testClock } from './support/money.ts'

let stores: Stores
let redis: Redis
let db: Database

test.before(async () => {
  stores = await freshStores()
  redis = new Redis(stores.redisUrl)
  db = openDatabase(stores.databaseUrl, { connections: 1, statementTimeoutMs: 30_000 })
})
test.after.always(async () => {
  redis?.disconnect()
  await db?.$disconnect()
  await stores?.drop()
})

/** The gate of one process, with a clock of its own. */
function gate(clock: TestClock): Admission {
  const scripts = loadScripts(redis)
  const accounts = new Accounts({ db, redis, scripts, clock })
  return new Admission({
    scripts,
    accounts,
    clock,
    log: createLog('silent'),
    deadlineMs: 60_000,
  })
}

function limited(limits: { rpm?: number; tpm?: number }): Spender {
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

/** A ticket, or how many seconds to wait. */
async function ask(admission: Admission, spender: Spender, tokens = 0): Promise<Ticket | number> {
  const bound = { estimatedTokens: tokens, fixedNano: 0, picoPerOutputToken: 0, outputTokens: 0, explicit: true }
  try {
    return (await admission.admit(spender, '-', newId('req'), bound)) as Ticket
  } catch (error) {
    if (!(error instanceof GatewayError) || error.code !== 'rate_limit_exceeded') throw error
    return Number(error.headers['retry-after'])
  }
}

/** The definition: what was admitted in this minute, and the part of the last one that still lies in the window. */
class Oracle {
  readonly #admitted = new Map<number, number>()

  used(nowMs: number): number {
    const minute = Math.floor(nowMs / 60_000)
    const rest = 1 - (nowMs % 60_000) / 60_000
    return (this.#admitted.get(minute - 1) ?? 0) * rest + (this.#admitted.get(minute) ?? 0)
  }

  add(nowMs: number, amount: number): void {
    const minute = Math.floor(nowMs / 60_000)
    this.#admitted.set(minute, (this.#admitted.get(minute) ?? 0) + amount)
  }
}

const epsilon = 1e-6
const steps = fc.array(fc.record({ waitMs: fc.nat(40_000), amount: fc.integer({ min: 1, max: 400 }) }), {
  minLength: 5,
  maxLength: 40,
})

for (const what of ['rpm', 'tpm'] as const) {
  test.serial(`429 exactly when the ${what} window is full, and the wait it gives suffices`, async t => {
    const property = fc.asyncProperty(fc.integer({ min: 1, max: 1_000 }), steps, async (limit, history) => {
      const small = what === 'rpm' ? Math.ceil(limit / 100) : limit
      const clock = testClock('2027-03-10T12:00:00Z')
      const admission = gate(clock)
      const spender = limited({ [what]: small })
      const oracle = new Oracle()
      for (const step of history) {
        clock.advance(step.waitMs)
        const amount = what === 'rpm' ? 1 : Math.min(step.amount, small)
        const fits = oracle.used(clock.now()) + amount <= small + epsilon
        const answer = await ask(admission, spender, what === 'rpm' ? 0 : step.amount)
        if (typeof answer === 'number') {
          if (fits) throw new Error('refused what fits')
          if (oracle.used(clock.now() + answer * 1_000) + amount > small + epsilon)
            throw new Error('the wait is too short')
          if (answer > 1 && oracle.used(clock.now() + (answer - 1) * 1_000 - 1) + amount <= small)
            throw new Error('the wait is too long')
        } else {
          if (!fits) throw new Error('admitted what does not fit')
          oracle.add(clock.now(), amount)
          const { requests, tokens } = answer.rates
          const left = Math.floor(small - oracle.used(clock.now()) + epsilon)
          if ((requests ?? tokens)!.remaining !== Math.max(0, left)) throw new Error('the remaining figure is wrong')
        }
      }
    })
    await t.notThrowsAsync(fc.assert(property, { numRuns: 60 }))
  })
}

test.serial('429 waits for both limits', async t => {
  const clock = testClock('2027-03-10T12:00:00Z')
  const admission = gate(clock)
  const spender = limited({ rpm: 2, tpm: 100 })
  for (const tokens of [90, 10]) t.not(typeof (await ask(admission, spender, tokens)), 'number')
  const wait = (await ask(admission, spender, 100)) as number
  clock.advance(wait * 1_000)
  t.not(typeof (await ask(admission, spender, 100)), 'number')
})

test.serial('429 at the limit also when another process’s clock is behind at the turn of the minute', async t => {
  const [ahead, behind] = [testClock('2027-03-10T12:01:00.010Z'), testClock('2027-03-10T12:00:59.990Z')]
  const gates = [gate(ahead), gate(behind)]
  const spender = limited({ rpm: 10 })
  let admitted = 0
  for (let i = 0; i < 40; i++) if (typeof (await ask(gates[i % 2]!, spender)) !== 'number') admitted++
  t.is(admitted, 10)
})

test.serial('429 counts every request of one event-loop turn once, over two processes', async t => {
  const clock = testClock('2027-03-10T12:00:00Z')
  const gates = [gate(clock), gate(clock)]
  const spender = limited({ rpm: 300 })
  const answers = await Promise.all(Array.from({ length: 1_000 }, (_, i) => ask(gates[i % 2]!, spender)))
  t.is(answers.filter(answer => typeof answer !== 'number').length, 300)
})

test.serial('200 after a settlement corrected the window it was counted in, and no other', async t => {
  const clock = testClock('2027-03-10T12:00:59.999Z')
  const admission = gate(clock)
  const spender = limited({ tpm: 1_000 })
  const first = (await ask(admission, spender, 900)) as Ticket
  clock.advance(1)
  const second = (await ask(admission, spender, 100)) as Ticket
  admission.settle(first, 0, 300, null)
  admission.settle(second, 0, 100, null)
  await admission.flush()
  const { tokens } = ((await ask(admission, spender, 0)) as Ticket).rates
  t.is(tokens!.remaining, 600)
  clock.advance(60_000)
  t.is(((await ask(admission, spender, 0)) as Ticket).rates.tokens!.remaining, 900)
})
