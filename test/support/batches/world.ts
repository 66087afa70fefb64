import type { Clock } from '../../../shared/base/time.ts'
import type { Batch } from '../../../shared/batches/batches.ts'
import { stepBatch } from '../../../shared/batches/step.ts'
import type { Services } from '../../../shared/open-services.ts'
import { Emulator, type Reply } from '../../emulators/emulator.ts'
import { reply as usual } from '../../emulators/openai.ts'
import { type Account, freshStores, type Gateway, type Stores, startGateway } from '../gateway.ts'
import { moneyEnvironment, spendKinds } from '../wallet/money.ts'
import {
  type BatchObject,
  batchOf,
  chatLine,
  costNano,
  createBatch,
  type Door,
  jsonLines,
  lineFaults,
  type Results,
  resultsOf,
  uploadInput,
} from './gateway.ts'

/** The answer to a line of this name; `times` counts its calls. */
export type Answers = (asked: string, times: number) => Reply

/** A gateway with round prices and one upstream that answers each line as the test defines. The test steps its batches itself. */
export class BatchWorld {
  readonly gateway: Gateway
  readonly upstream: Emulator
  /** How often each line was sent to the upstream. */
  readonly asked = new Map<string, number>()
  answers: Answers = () => usual
  readonly #stores: Stores

  private constructor(gateway: Gateway, upstream: Emulator, stores: Stores) {
    this.gateway = gateway
    this.upstream = upstream
    this.#stores = stores
  }

  static async start(env: Record<string, string> = {}, clock?: Clock): Promise<BatchWorld> {
    const stores = await freshStores()
    let world: BatchWorld | undefined
    const upstream = await Emulator.start((request, response) => {
      const content = String(request.body.messages[0].content).slice(0, 100)
      const times = (world!.asked.get(content) ?? 0) + 1
      world!.asked.set(content, times)
      return world!.answers(content, times)(request, response)
    })
    const settings = { ...(await moneyEnvironment(upstream.url)), ...env }
    world = new BatchWorld(await startGateway(stores, settings, clock), upstream, stores)
    return world
  }

  async close(): Promise<void> {
    await this.gateway.close()
    await this.upstream.close()
    await this.#stores.drop()
  }

  door({ live }: Pick<Account, 'live'>): Door {
    return { url: this.gateway.url, key: live }
  }

  /** Uploads lines and creates a batch of them that the gateway is to run; gives its id. */
  async created(door: Door, lines: readonly object[]): Promise<string> {
    const input = await uploadInput(door, jsonLines(lines))
    return (await createBatch(door, input, { batch_routing: 'gateway' })).id
  }

  /** Visits a batch as a worker does, with services of the test's own. */
  visit(id: string, services: Services = this.gateway.services, stopping?: AbortSignal): Promise<number | null> {
    return stepBatch(services, id, stopping ?? new AbortController().signal)
  }

  row(id: string): Promise<Batch> {
    return this.gateway.services.db.batch.findUniqueOrThrow({ where: { id } })
  }

  /**
   * What is wrong with a batch that is over: each line once and in the right file, its counts, and its money: what the lines
   * say they cost is what the batch says, and what its organisation was charged, where it is the only one.
   */
  async faults(door: Door, id: string, customIds: Iterable<string>, organisationId: string): Promise<string[]> {
    const batch = await batchOf(door, id)
    const results = await resultsOf(door, batch)
    const faults = [
      ...lineFaults(customIds, results),
      ...countFaults(batch, results),
      ...(await this.gateway.settled()),
    ]
    const { db, wallets } = this.gateway.services
    const where = { organisationId, kind: { in: [...spendKinds] } }
    const { _sum } = await db.ledgerEntry.aggregate({ where, _sum: { amountNano: true } })
    const sums = [costNano(results), Math.round(batch.cost_usd! * 1e9), 0 - Number(_sum.amountNano ?? 0n)]
    if (new Set(sums).size > 1) faults.push(`lines, batch and ledger say it cost ${sums.join(', ')}`)
    const { reservedNano } = await wallets.view(organisationId)
    if (reservedNano !== 0n) faults.push(`${reservedNano} nano-dollars are still reserved`)
    return faults
  }
}

function countFaults({ request_counts: counts, status }: BatchObject, { output, errors }: Results): string[] {
  const faults: string[] = []
  if (counts.completed !== output.length) faults.push(`${counts.completed} completed, ${output.length} in the output`)
  if (counts.failed !== errors.length) faults.push(`${counts.failed} failed, ${errors.length} in the errors`)
  if (status !== 'failed' && counts.total !== counts.completed + counts.failed) faults.push('not every line is counted')
  for (const { custom_id, response } of output)
    if (response?.status_code !== 200) faults.push(`${custom_id} is in the output with ${response?.status_code}`)
  for (const { custom_id, response } of errors)
    if (response?.status_code === 200) faults.push(`${custom_id} is in the errors with 200`)
  return faults
}

/** Lines `line-0`, `line-1`, …, which say their own names. */
export function coinLines(count: number, more: object = {}) {
  return Array.from({ length: count }, (_, i) =>
    chatLine(`line-${i}`, 'coin', `line-${i}`, { max_tokens: 20, ...more }),
  )
}

export const idsOf = (lines: readonly { custom_id: string }[]) => lines.map(line => line.custom_id)

/** One of the services with a method that does something else: what breaks in the world around it. */
export function broken<T extends object, Name extends keyof T>(real: T, name: Name, instead: T[Name]): T {
  return new Proxy(real, {
    get(target, property) {
      if (property === name) return instead
      const value = Reflect.get(target, property, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
