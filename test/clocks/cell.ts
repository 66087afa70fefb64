import { setTimeout as sleep } from 'node:timers/promises'
import { monthOf } from '../../shared/base/time.ts'
import { rest } from '../prove/verdict.ts'
import { breaches } from '../support/chaos.ts'
import type { ClockedStack, Role } from '../support/clocks/clocked-stack.ts'
import { type Account, createAccount } from '../support/gateway.ts'
import type { Receiver } from '../support/webhooks/receiver.ts'
import { Housekeeping } from './housekeeping.ts'
import type { Providers } from './providers.ts'

/** When the clock is still right, while it is wrong, and once it is right again. */
export type Moment = 'before' | 'during' | 'after'

/** How far the clock of each role steps in a cell, in milliseconds; the others stay right. */
export type Steps = Partial<Record<Role, number>>

/** Clocks that step away and back, and the account whose work goes on meanwhile. */
export type Cell = {
  stack: ClockedStack
  providers: Providers
  receiver: Receiver
  steps: Steps
  /** Of the cell: no other uses it. */
  account: Account
  /** Unique among all cells, for marks and names. */
  name: string
  housekeeping: Housekeeping
}

/** A kind of work that must not notice the clock. Each part throws an Error that says what differed. */
export type Work = {
  name: string
  /** Begins while the clock is right. */
  begin(cell: Cell): Promise<{
    during?(): Promise<void>
    after?(): Promise<void>
    /** Once nothing is under way any more. */
    atRest?(): Promise<void>
  }>
}

export type Fault = { work: string; when: string; difference: string }

/** Long enough for a sweep of the housekeeping, and for a step of seconds to be seen in what is billed by time. */
const holdMs = 6_000
const restWithinMs = 60_000

/** Runs these kinds of work while the clocks step away and back, comes to rest, and compares. */
export async function runCell(
  world: Pick<Cell, 'stack' | 'providers' | 'receiver'>,
  steps: Steps,
  works: readonly Work[],
): Promise<Fault[]> {
  const { stack } = world
  const faults: Fault[] = []
  const attempt = async (work: string, when: string, part: (() => Promise<unknown>) | undefined) => {
    await part?.().catch((error: Error) => faults.push({ work, when, difference: differenceIn(error) }))
  }
  const account = await createAccount(stack.services, { usd: '1000' })
  await stack.services.db.organisation.update({ where: { id: account.organisationId }, data: { keepResponses: true } })
  const housekeeping = await Housekeeping.watch(stack.services)
  const cell: Cell = { ...world, steps, account, housekeeping, name: account.organisationId.slice(-8) }
  const fromMs = Date.now()
  try {
    const begun: { name: string; run: Awaited<ReturnType<Work['begin']>> }[] = []
    const begin = async ({ name, begin }: Work) => begun.push({ name, run: await begin(cell) })
    await Promise.all(works.map(work => attempt(work.name, 'before', () => begin(work))))
    const each = (when: string, part: 'during' | 'after' | 'atRest') =>
      Promise.all(begun.map(({ name, run }) => attempt(name, when, run[part])))
    await setAll(stack, steps)
    await Promise.all([each('during', 'during'), sleep(holdMs)])
    await setAll(stack, right)
    const repaired = attempt('housekeeping', 'after', () => housekeeping.everyTask())
    await each('after', 'after')
    await attempt('all work', 'after', () => comesToRest(cell))
    await repaired
    await each('at rest', 'atRest')
    await attempt('request log', 'at rest', () => datesAndDurations(cell, fromMs))
    await attempt('ledger check', 'at rest', () => ledgerAgrees(cell))
  } finally {
    await setAll(stack, right)
    await housekeeping.close()
  }
  return faults
}

const right: Steps = { web: 0, worker: 0, postgres: 0, redis: 0 }

async function setAll(stack: ClockedStack, steps: Steps): Promise<void> {
  await Promise.all((Object.keys(steps) as Role[]).map(role => stack.set(role, steps[role]!)))
}

async function comesToRest({ stack }: Cell): Promise<void> {
  const { left } = await rest(stack.services, restWithinMs)
  if (Object.values(left).some(count => count > 0)) throw new Error(`still under way: ${JSON.stringify(left)}`)
}

async function ledgerAgrees({ stack }: Cell): Promise<void> {
  const found = await breaches(stack.services)
  if (found.length > 0) throw new Error(found.join('; '))
}

/** Whatever was logged and charged is of the months of the cell, and took no longer than the cell. */
async function datesAndDurations({ stack: { services }, account }: Cell, fromMs: number): Promise<void> {
  const { db } = services
  const { organisationId } = account
  const maxMs = Date.now() - fromMs
  const months = new Set([monthOf(fromMs), monthOf(Date.now())])
  const [rows, entries, spends] = await Promise.all([
    db.generation.findMany({ where: { organisationId } }),
    db.ledgerEntry.findMany({ where: { organisationId } }),
    db.keySpend.findMany({ where: { key: { organisationId } } }),
  ])
  const dated = [
    ...rows.map(({ id, createdAt }) => ({ what: `the request ${id}`, month: monthOf(createdAt.getTime()) })),
    ...entries.map(({ cause, createdAt }) => ({ what: `the entry ${cause}`, month: monthOf(createdAt.getTime()) })),
    ...spends.map(({ keyId, month }) => ({ what: `the spend of key ${keyId}`, month })),
  ]
  const wrong = dated.filter(({ month }) => !months.has(month)).map(({ what, month }) => `${what} is of ${month}`)
  for (const { kind, id, ...row } of rows)
    for (const part of ['durationMs', 'firstByteMs', 'overheadMs'] as const)
      if ((row[part] ?? 0) < 0 || (row[part] ?? 0) > maxMs) wrong.push(`${part} of ${kind} ${id} is ${row[part]} ms`)
  if (wrong.length > 0) throw new Error(wrong.join('; '))
}

const maxDifferenceChars = 600

function differenceIn(error: Error): string {
  return error.message.replaceAll(/\s*\n\s*/g, ' ').slice(0, maxDifferenceChars)
}
