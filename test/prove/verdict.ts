import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Job } from '../../shared/jobs/jobs.ts'
import type { Services } from '../../shared/open-services.ts'
import { openReservations } from '../../shared/wallet/check.ts'
import { countEvents } from '../../shared/wallet/ledger.ts'
import { ledgerCheck } from '../support/chaos.ts'
import { call, eventually } from '../support/gateway.ts'
import { spendKinds } from '../support/wallet/money.ts'
import type { Receiver } from '../support/webhooks/receiver.ts'
import type { Direct, Load, Submission } from './load.ts'
import type { Providers } from './providers.ts'
import { isProvider, type Supervised, type World } from './world.ts'

export type Account = { organisationId: string; live: string }
/** By their names: `account`, `agents`, and those whose wallet, cap or rate limit is small or whose card is charged. */
export type Accounts = Record<'account' | 'agents', Account> & Partial<Record<LimitedAccount, Account>>

const limitedAccounts = ['small wallet', 'small cap', 'few requests', 'saved card'] as const
export type LimitedAccount = (typeof limitedAccounts)[number]

function isLimited(account: string): boolean {
  return limitedAccounts.some(name => name === account)
}

/** What is still under way, by name; all zero at rest. */
export type UnderWay = Record<'jobs' | 'batches' | 'webhooks' | 'reservations' | 'usageEvents' | 'charges', number>

const terminalJobs = ['completed', 'failed', 'cancelled', 'expired'] as const
const pollMs = 250

/** Waits until nothing is under way, at most `withinMs`. Gives how long it took and what was left then. */
export async function rest(services: Services, withinMs: number): Promise<{ tookMs: number; left: UnderWay }> {
  for (const startedMs = Date.now(); ; await sleep(pollMs)) {
    const left = await underWay(services)
    const tookMs = Date.now() - startedMs
    if (Object.values(left).every(count => count === 0) || tookMs > withinMs) return { tookMs, left }
  }
}

async function underWay({ db, redis }: Services): Promise<UnderWay> {
  const [jobs, batches, webhooks, reservations, usageEvents, charges] = await Promise.all([
    db.job.count({ where: { status: { notIn: [...terminalJobs] } } }),
    db.batch.count({ where: { status: { notIn: [...terminalJobs] } } }),
    db.webhookDelivery.count({ where: { status: 'pending' } }),
    openReservations(redis),
    countEvents(redis),
    db.topUp.count({ where: { automatic: true, status: 'open' } }),
  ])
  return { jobs, batches, webhooks, reservations: reservations.length, usageEvents: usageEvents.waiting, charges }
}

/** Everything that must hold after a run, one line per breach. */
export async function findBreaches(
  world: World,
  accounts: Accounts,
  load: Load,
  receiver: Receiver,
  providers: Providers,
  isExcused: (direct: Direct) => boolean = () => false,
): Promise<string[]> {
  const { services } = world
  const { account } = accounts
  const ownEnds = [...world.webs, ...world.workers].flatMap(it => it.ownEnds)
  return [
    ...ownEnds,
    ...(await directBreaches(world, Object.values(accounts), load.directs, isExcused)),
    ...(await submissionBreaches(world, account, load.submissions, providers)),
    ...(await batchBreaches(world, account, load.submissions)),
    ...(await webhookBreaches(services, load.submissions, receiver)),
    ...(await spendBreaches(services, accounts)),
    ...rateBreaches(load.directs.filter(direct => !isExcused(direct))),
    ...(await ledgerBreaches(world)),
  ]
}

/** A killed process loses what it had answered but not yet settled in Redis: 2 ms, and what a busy machine makes of them. */
const unsettledMs = 1_000

/** Every whole answer is booked at the cost it told; refusals are outages, never internal errors, and cost nothing. */
async function directBreaches(
  { services: { db }, webs, webUrls }: World,
  accounts: readonly Account[],
  directs: readonly Direct[],
  isExcused: (direct: Direct) => boolean,
): Promise<string[]> {
  const where = { organisationId: { in: accounts.map(({ organisationId }) => organisationId) } }
  const generations = await db.generation.findMany({ where, select: { id: true, requestId: true, costNano: true } })
  const costs = new Map(generations.map(({ id, costNano }) => [id, Number(costNano)]))
  const charged = Map.groupBy(
    generations.filter(({ costNano }) => costNano > 0n),
    ({ requestId }) => requestId,
  )
  const wasKilled = ({ url, endedMs }: Direct) =>
    webs[webUrls.indexOf(url)]!.killedMs.some(atMs => Math.abs(endedMs - atMs) < unsettledMs)
  return directs.flatMap(direct => {
    const booked = costs.get(direct.generationId ?? '')
    const line = JSON.stringify({ ...direct, booked })
    if (isExcused(direct)) return []
    const times = charged.get(direct.requestId) ?? []
    if (times.length > 1) return [`charged ${times.length} times, as ${times.map(({ id }) => id)}: ${line}`]
    if (wrongStatuses(direct).includes(direct.status)) return [`wrong refusal: ${line}`]
    const isLost = booked === undefined && wasKilled(direct)
    if (direct.outcome === 'whole' && direct.costNano !== null && booked !== direct.costNano && !isLost)
      return [`answered cost is not the booked one: ${line}`]
    if (direct.outcome === 'refused' && booked) return [`a refusal was charged: ${line}`]
    return []
  })
}

/** Errors inside out, keys that are not known, and wallets and limits that are not exhausted. */
function wrongStatuses({ account }: Direct): number[] {
  return isLimited(account) ? [500, 401] : [500, 401, 402, 429]
}

/** How a job ends of which it is not known whether its provider began. */
const unclearStart = /^(?:It is not known whether|The connection to the provider failed)/

/**
 * Every submission got its answer, made one row, was started once at its provider at most, and ended well: or without a charge,
 * where its start was interrupted, so that it is not known whether the provider began, or where the provider's 200 was no answer.
 */
async function submissionBreaches(
  { services: { db }, workers }: World,
  { organisationId }: Account,
  submissions: readonly Submission[],
  providers: Providers,
): Promise<string[]> {
  const jobs = await db.job.findMany({ where: { organisationId } })
  const batches = await db.batch.findMany({ where: { organisationId } })
  const idsByMark = Map.groupBy([...jobs, ...batches], ({ metadata }) => (metadata as { mark: string }).mark)
  const statusById = new Map([...jobs, ...batches].map(({ id, status }) => [id, status]))
  const interruptedMs = workers.flatMap(({ killedMs, frozenMs, links }) => {
    return [...killedMs, ...frozenMs, ...[...links.values()].flatMap(({ resetMs }) => resetMs)]
  })
  const isInterrupted = ({ createdAt, completedAt }: Job) => {
    const [fromMs, toMs] = [createdAt.getTime(), completedAt?.getTime() ?? 0]
    return interruptedMs.some(atMs => atMs >= fromMs && atMs <= toMs)
  }
  const endedFree = jobs.filter(job => {
    if (job.status !== 'failed' || job.costNano) return false
    const { code, message } = job.error as { code: string; message: string }
    if (unclearStart.test(message)) return isInterrupted(job)
    // Another answer might be paid as well: it is not asked for.
    const { mark } = job.metadata as { mark: string }
    return code === 'upstream_invalid_response' && providers.unanswerable.has(mark)
  })
  const endedFreeIds = new Set(endedFree.map(({ id }) => id))
  const calls = providers.callsByMark()
  return submissions.flatMap(submission => {
    const { kind, mark, id, answers } = submission
    const line = JSON.stringify({ ...submission, answers: [...new Set(answers)] })
    const ids = idsByMark.get(mark) ?? []
    if (answers.some(answer => answer.startsWith('500'))) return [`500 for a submission: ${line}`]
    if (id === null) return [`a submission never got its answer: ${line}`]
    if (ids.length !== 1 || ids[0]!.id !== id) return [`not one row of its own: ${line}: ${ids.map(it => it.id)}`]
    if (statusById.get(id) !== 'completed' && !endedFreeIds.has(id)) return [`ended ${statusById.get(id)}: ${line}`]
    const starts = calls.get(mark) ?? 0
    if (kind === 'video' && starts !== 1 && !(starts === 0 && endedFreeIds.has(id)))
      return [`started ${starts} times: ${line}`]
    return []
  })
}

type BatchAnswer = {
  output_file_id: string | null
  error_file_id: string | null
  request_counts: { total: number }
  cost_usd: number
}
type OutputLine = { custom_id: string; response: { body: { usage?: { cost: number } } } | null }

/** Every line is in one of the two files once, and the batch costs what its lines cost. */
async function batchBreaches(
  { webUrls }: World,
  { live }: Account,
  submissions: readonly Submission[],
): Promise<string[]> {
  const breaches: string[] = []
  for (const { id, kind } of submissions) {
    if (kind !== 'batch' || id === null) continue
    const read = (path: string) => call(webUrls[0]!, path, { key: live })
    const batch = (await (await read(`/v1/batches/${id}`)).json()) as BatchAnswer
    const lines: OutputLine[] = []
    for (const file of [batch.output_file_id, batch.error_file_id].filter(Boolean)) {
      const text = await (await read(`/v1/files/${file}/content`)).text()
      lines.push(
        ...text
          .split('\n')
          .filter(Boolean)
          .map(line => JSON.parse(line)),
      )
    }
    const costNano = lines.reduce((sum, { response }) => sum + Math.round((response?.body.usage?.cost ?? 0) * 1e9), 0)
    const { total } = batch.request_counts
    if (lines.length !== total || new Set(lines.map(it => it.custom_id)).size !== total)
      breaches.push(`batch ${id} has ${lines.length} lines of ${total}`)
    if (costNano !== Math.round(batch.cost_usd * 1e9))
      breaches.push(`batch ${id} cost ${batch.cost_usd} USD, its lines ${costNano} nano-dollars`)
  }
  return breaches
}

/** Every accepted piece of slow work told its receiver that it ended, or its delivery is recorded as given up. */
async function webhookBreaches(
  { db }: Services,
  submissions: readonly Submission[],
  receiver: Receiver,
): Promise<string[]> {
  const told = new Set(receiver.received.map(({ body }) => (JSON.parse(body) as { data: { id: string } }).data.id))
  const failed = await db.webhookDelivery.findMany({
    where: { status: 'failed' },
    select: { jobId: true, batchId: true },
  })
  const givenUp = new Set(failed.map(({ jobId, batchId }) => jobId ?? batchId))
  return submissions.flatMap(({ id }) =>
    id === null || told.has(id) || givenUp.has(id) ? [] : [`no webhook for ${id}, and none recorded as given up`],
  )
}

/** What the key of `few requests` may ask for in a minute. */
export const fewRequestsPerMinute = 15
/** What the key of `small cap` may spend in a month, and the wallet of `small wallet` holds. */
export const smallUsd = 0.02

/** Wallets and caps are never exceeded. */
async function spendBreaches({ db }: Services, accounts: Accounts): Promise<string[]> {
  const breaches: string[] = []
  for (const name of ['small wallet', 'small cap'] as const) {
    const { organisationId } = accounts[name] ?? {}
    if (organisationId === undefined) continue
    const where = { organisationId, kind: { in: [...spendKinds] } }
    const { _sum } = await db.ledgerEntry.aggregate({ where, _sum: { amountNano: true } })
    const spentUsd = -Number(_sum.amountNano ?? 0) / 1e9
    if (spentUsd > smallUsd) breaches.push(`${name}: ${spentUsd} USD were spent of ${smallUsd}`)
  }
  return breaches
}

const minuteMs = 60_000

/** No minute admits more requests than the limit: those that were surely admitted in it, since they were sent and answered. */
function rateBreaches(directs: readonly Direct[]): string[] {
  const admitted = directs
    .filter(({ account, status }) => account === 'few requests' && status === 200)
    .sort((a, b) => a.sentMs - b.sentMs)
  for (const { sentMs } of admitted) {
    const within = admitted.filter(it => it.sentMs >= sentMs && it.respondedMs < sentMs + minuteMs)
    if (within.length > fewRequestsPerMinute)
      return [`few requests: ${within.length} were admitted in the minute from ${new Date(sentMs).toISOString()}`]
  }
  return []
}

async function ledgerBreaches({ postgres, redis, env }: World): Promise<string[]> {
  const { exitCode, report } = await ledgerCheck({ databaseUrl: postgres.url, redisUrl: redis.url }, env)
  if (exitCode === 0) return []
  return report.invariants.flatMap(({ name, breaches }) => breaches.map(breach => `ledger check, ${name}: ${breach}`))
}

/** How many of each kind of work ended how. */
export function summarise({ directs, submissions }: Load): Record<string, number> {
  const outcomes = directs.map(({ kind, outcome, status, code }) =>
    outcome === 'refused' ? `${kind}: ${status} ${code}` : `${kind}: ${outcome}`,
  )
  const kinds = submissions.map(({ kind, answers }) => `${kind}: ${answers.length > 1 ? 'after retries' : 'at once'}`)
  const groups = Object.groupBy([...outcomes, ...kinds].sort(), it => it)
  return Object.fromEntries(Object.entries(groups).map(([name, all]) => [name, all!.length]))
}

/** What a run must not leave behind: objects without a row, rows without their object, open handles, grown memory. */
export async function findLeftovers(world: World, atStart: readonly ProcessFigures[]): Promise<string[]> {
  const { storage, services, webs, workers } = world
  const breaches: string[] = []
  const rows = await services.db.file.findMany({
    select: { id: true, storageKey: true, expiresAt: true, purpose: true, bytes: true },
  })
  const keys = new Set(rows.map(({ storageKey }) => storageKey))
  const stored = await readdir(storage, { recursive: true, withFileTypes: true })
  const objects = stored.filter(it => it.isFile()).map(it => relative(storage, join(it.parentPath, it.name)))
  const wasKilled = [...webs, ...workers].some(({ killedMs }) => killedMs.length > 0)
  const isHalfWritten = (object: string) => wasKilled && object.startsWith('.unfinished/')
  for (const object of objects)
    if (!keys.has(object) && !isHalfWritten(object)) breaches.push(`an object without a row: ${object}`)
  const present = new Set(objects)
  const now = new Date()
  for (const { id, storageKey, expiresAt, purpose, bytes } of rows)
    if (expiresAt > now && bytes > 0n && !stagedPurposes.has(purpose) && !present.has(storageKey))
      breaches.push(`a file without its object: ${id}`)
  const processes = [...webs, ...workers]
  for (const { links } of processes) for (const [server, link] of links) if (isProvider(server)) link.reset()
  const isBack = () => processes.every((it, i) => figuresOf(it).handles <= atStart[i]!.handles + maxMoreHandles)
  await eventually(isBack, 'handles are closed', closedWithinMs).catch(() => {}) // What is open is told below.
  for (const [i, it] of processes.entries()) {
    const { handles, memoryMb } = figuresOf(it)
    if (handles > atStart[i]!.handles + maxMoreHandles)
      breaches.push(
        `process ${i} has ${handles} open handles, at the start ${atStart[i]!.handles}: ${describeHandles(it)}`,
      )
    if (memoryMb > maxMemoryMb) breaches.push(`process ${i} has ${memoryMb} MB`)
  }
  return breaches
}

/** Rows come before their bytes, so that what a crash leaves is known and expires: these with their size, results without. */
const stagedPurposes: ReadonlySet<string> = new Set(['reference', 'upload'])
/** Of the pools to the stores, which a process at its start has not filled. */
const maxMoreHandles = 40
const closedWithinMs = 15_000
const maxMemoryMb = 600

export type ProcessFigures = { handles: number; memoryMb: number }

/** The open handles and the resident memory of a process. */
export function figuresOf({ process }: Supervised): ProcessFigures {
  const pid = process?.child.pid
  if (pid === undefined) return { handles: 0, memoryMb: 0 }
  const [, kilobytes] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return { handles: readdirSync(`/proc/${pid}/fd`).length, memoryMb: Math.round(Number(kilobytes) / 1_024) }
}

/** The state of a TCP socket in /proc. */
const listening = '0A'
const handleTypes = /^(socket|pipe|anon_inode):/

/** The open handles of a process, counted by the server or port that a connection leads to, else by their type. */
function describeHandles({ process, links }: Supervised): string {
  const folder = `/proc/${process!.child.pid}`
  const servers = new Map([...links].map(([server, { url }]) => [new URL(url).port, server]))
  const portOf = (address: string) => String(Number.parseInt(address.split(':')[1]!, 16))
  const connections = readFileSync(`${folder}/net/tcp`, 'utf8')
    .trim()
    .split('\n')
    .slice(1)
    .map(line => line.trim().split(/\s+/) as string[])
  const listened = new Set(
    connections.filter(([, , , state]) => state === listening).map(([, local]) => portOf(local!)),
  )
  const ends = connections.map(([, local, remote, , , , , , , inode]) => {
    const other = listened.has(portOf(local!)) ? 'clients' : `port ${portOf(remote!)}`
    return [`socket:[${inode}]`, servers.get(portOf(remote!)) ?? other] as const
  })
  const names = new Map<string, string>(ends)
  const handles = readdirSync(`${folder}/fd`).map(fd => readlinkSync(`${folder}/fd/${fd}`))
  const groups = Object.groupBy(handles, it => names.get(it) ?? handleTypes.exec(it)?.[1] ?? 'file')
  return Object.entries(groups)
    .map(([name, all]) => `${all!.length} ${name}`)
    .join(', ')
}
