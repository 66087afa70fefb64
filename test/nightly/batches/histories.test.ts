import fc from 'fast-check'
import { nanoFromUsd } from '../../../shared/base/money.ts'
import type { Services } from '../../../shared/open-services.ts'
import { after } from '../../emulators/emulator.ts'
import { failure, rateLimited, serverError, reply as usual } from '../../emulators/openai.ts'
import { batchOf, cancelBatch, resultsOf } from '../../support/batches/gateway.ts'
import { BatchWorld, broken, coinLines, idsOf } from '../../support/batches/world.ts'
import { eventually } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const runs = 6
const over = ['completed', 'failed', 'expired', 'cancelled']
const world = use(test, () => BatchWorld.start({ BULK_CONCURRENCY: '8', UPSTREAM_MAX_PAUSE_MS: '20' }))

const refusal = failure(400, 'This prompt is not allowed.', 'invalid_request_error', null)
/** What becomes of a line, by how often it was asked. */
const fates = {
  answered: () => usual,
  slow: () => after(60, usual),
  refused: () => refusal,
  'fails once': (times: number) => (times === 1 ? serverError : usual),
  'busy once': (times: number) => (times === 1 ? rateLimited('0.2') : usual),
}
type Fate = keyof typeof fates

/** What happens once so many more calls were made. */
const incidents = [
  'another worker takes it over',
  'its worker stops',
  'a write fails',
  'a commit is not confirmed',
  'Redis is wiped',
  'money comes in',
  'it is cancelled',
] as const
type Incident = (typeof incidents)[number]

const histories = fc.record({
  fates: fc.array(
    fc.oneof(
      { weight: 12, arbitrary: fc.constantFrom<Fate>('answered', 'slow') },
      { weight: 2, arbitrary: fc.constantFrom<Fate>('refused', 'fails once') },
      { weight: 1, arbitrary: fc.constant<Fate>('busy once') },
    ),
    { minLength: 3, maxLength: 60 },
  ),
  incidents: fc.array(fc.record({ afterCalls: fc.nat(12), what: fc.constantFrom(...incidents) }), { maxLength: 6 }),
  /** Each line reserves about two hundredths of a cent. */
  usd: fc.constantFrom('25', '0.002', '0.0001'),
})
type History = typeof histories extends fc.Arbitrary<infer T> ? T : never

/** The workers that visit one batch, and what goes wrong around them. */
class Visits {
  readonly #id: string
  readonly #services: Services
  #trouble: 'before' | 'after' | null = null
  #stopping = new AbortController()
  readonly #running: Promise<unknown>[] = []

  constructor(id: string) {
    this.#id = id
    const { services } = world.gateway
    const { batchJournal } = services
    const record: typeof batchJournal.record = async (...args) => {
      const trouble = this.#trouble
      this.#trouble = null
      if (trouble === 'before') throw new Error('the connection broke before the commit')
      const status = await batchJournal.record(...args)
      if (trouble === 'after') throw new Error('the connection broke after the commit')
      return status
    }
    this.#services = { ...services, batchJournal: broken(batchJournal, 'record', record) }
  }

  begin(): void {
    const { signal } = this.#stopping
    // A superseded worker stops.
    this.#running.push(world.visit(this.#id, this.#services, signal).catch(() => {}))
  }

  async suffer(what: Incident, organisationId: string, cancel: () => Promise<unknown>): Promise<void> {
    const { redis, wallets } = world.gateway.services
    if (what === 'another worker takes it over') this.begin()
    else if (what === 'its worker stops') await this.#stop()
    else if (what === 'a write fails') this.#trouble = 'before'
    else if (what === 'a commit is not confirmed') this.#trouble = 'after'
    else if (what === 'Redis is wiped') await redis.flushdb()
    else if (what === 'money comes in')
      await wallets.deposit({ organisationId, amountNano: nanoFromUsd('0.001'), method: 'grant' })
    else await cancel()
  }

  async #stop(): Promise<void> {
    this.#stopping.abort()
    await Promise.all(this.#running)
    this.#stopping = new AbortController()
    this.begin()
  }

  /** Runs steps of the batch until it has ended and no worker holds it. */
  async end(): Promise<void> {
    await Promise.all(this.#running)
    for (let visit = 0; visit < 20 && !over.includes((await world.row(this.#id)).status); visit++)
      await world.visit(this.#id, this.#services).catch(() => {})
  }
}

/** What is wrong at the end of a history. */
async function faultsOf({ fates: fatesOfLines, incidents: planned, usd }: History): Promise<string[]> {
  world.asked.clear()
  world.answers = (asked, times) => fates[fatesOfLines[Number(asked.split('-')[1])] ?? 'answered'](times)
  const account = await world.gateway.account({ usd })
  const door = world.door(account)
  const lines = coinLines(fatesOfLines.length)
  const id = await world.created(door, lines)
  const calls = () => [...world.asked.values()].reduce((sum, times) => sum + times, 0)
  const visits = new Visits(id)
  visits.begin()
  for (const { afterCalls, what } of planned) {
    const goal = calls() + afterCalls
    const isOver = async () => over.includes((await world.row(id)).status)
    await eventually(async () => calls() >= goal || (await isOver()), 'more calls are made')
    await visits.suffer(what, account.organisationId, () => cancelBatch(door, id).catch(() => {}))
  }
  await visits.end()
  // One that is cancelled before it was validated has no lines.
  const { inProgressAt } = await world.row(id)
  const faults = await world.faults(door, id, inProgressAt ? idsOf(lines) : [], account.organisationId)
  const isCancelled = planned.some(({ what }) => what === 'it is cancelled')
  const { output, errors } = await resultsOf(door, await batchOf(door, id))
  for (const { custom_id } of output)
    if (fatesOfLines[Number(custom_id.split('-')[1])] === 'refused') faults.push(`${custom_id} was refused`)
  for (const { custom_id, response, error } of errors) {
    const isRefused = fatesOfLines[Number(custom_id.split('-')[1])] === 'refused' && response?.status_code === 400
    const isPoor = response?.status_code === 402 && usd !== '25'
    if (!isRefused && !isPoor && !(isCancelled && error?.code === 'batch_cancelled'))
      faults.push(`${custom_id} ended with ${response?.status_code ?? error?.code}`)
  }
  return faults
}

test('whatever happens to a batch, each line ends once and is paid for once', async t => {
  t.timeout(120_000)
  await fc.assert(
    fc.asyncProperty(histories, async history => {
      t.deepEqual(await faultsOf(history), [])
    }),
    { numRuns: runs, endOnFailure: true },
  )
})
