import { setTimeout as sleep } from 'node:timers/promises'
import type { Services } from '../../shared/open-services.ts'
import { openReservations } from '../../shared/wallet/check.ts'
import { countEvents } from '../../shared/wallet/ledger.ts'
import { ledgerCheck } from '../support/chaos.ts'
import { call } from '../support/gateway.ts'
import type { Receiver } from '../support/webhooks/receiver.ts'
import type { Direct, Load, Submission } from './load.ts'
import type { Providers } from './providers.ts'
import type { World } from './world.ts'

export type Account = { organisationId: string; live: string }

/** What is still under way, by name; all zero at rest. */
export type UnderWay = Record<'jobs' | 'batches' | 'webhooks' | 'reservations' | 'usageEvents', number>

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
  const [jobs, batches, webhooks, reservations, usageEvents] = await Promise.all([
    db.job.count({ where: { status: { notIn: [...terminalJobs] } } }),
    db.batch.count({ where: { status: { notIn: [...terminalJobs] } } }),
    db.webhookDelivery.count({ where: { status: 'pending' } }),
    openReservations(redis),
    countEvents(redis),
  ])
  return { jobs, batches, webhooks, reservations: reservations.length, usageEvents: usageEvents.waiting }
}

/** Everything that must hold after a run, one line per breach. */
export async function findBreaches(
  world: World,
  { account, agents }: { account: Account; agents: Account },
  load: Load,
  receiver: Receiver,
  providers: Providers,
): Promise<string[]> {
  const ownEnds = [...world.webs, ...world.workers].flatMap(it => it.ownEnds)
  return [
    ...ownEnds,
    ...(await directBreaches(world.services, [account, agents], load.directs)),
    ...(await submissionBreaches(world.services, account, load.submissions, providers)),
    ...(await batchBreaches(world, account, load.submissions)),
    ...(await webhookBreaches(load.submissions, receiver)),
    ...(await ledgerBreaches(world)),
  ]
}

/** Every whole answer is booked at the cost it told; refusals are outages, never internal errors, and cost nothing. */
async function directBreaches(
  { db }: Services,
  accounts: readonly Account[],
  directs: readonly Direct[],
): Promise<string[]> {
  const where = { organisationId: { in: accounts.map(({ organisationId }) => organisationId) } }
  const generations = await db.generation.findMany({ where, select: { id: true, costNano: true } })
  const costs = new Map(generations.map(({ id, costNano }) => [id, Number(costNano)]))
  return directs.flatMap(direct => {
    const booked = costs.get(direct.generationId ?? '')
    const line = JSON.stringify({ ...direct, booked })
    if (direct.status === 500 || direct.status === 401 || direct.status === 402) return [`wrong refusal: ${line}`]
    if (direct.outcome === 'whole' && booked !== direct.costNano)
      return [`answered cost is not the booked one: ${line}`]
    if (direct.outcome === 'refused' && booked) return [`a refusal was charged: ${line}`]
    return []
  })
}

/** Every submission got its answer, made one row, was started once at its provider at most, and ended well. */
async function submissionBreaches(
  { db }: Services,
  { organisationId }: Account,
  submissions: readonly Submission[],
  providers: Providers,
): Promise<string[]> {
  const jobs = await db.job.findMany({ where: { organisationId } })
  const batches = await db.batch.findMany({ where: { organisationId } })
  const idsByMark = Map.groupBy([...jobs, ...batches], ({ metadata }) => (metadata as { mark: string }).mark)
  const statusById = new Map([...jobs, ...batches].map(({ id, status }) => [id, status]))
  const calls = providers.callsByMark()
  return submissions.flatMap(submission => {
    const { kind, mark, id, answers } = submission
    const line = JSON.stringify({ ...submission, answers: [...new Set(answers)] })
    const ids = idsByMark.get(mark) ?? []
    if (answers.some(answer => answer.startsWith('500'))) return [`500 for a submission: ${line}`]
    if (id === null) return [`a submission never got its answer: ${line}`]
    if (ids.length !== 1 || ids[0]!.id !== id) return [`not one row of its own: ${line}: ${ids.map(it => it.id)}`]
    if (statusById.get(id) !== 'completed') return [`ended ${statusById.get(id)}: ${line}`]
    if (kind === 'video' && calls.get(mark) !== 1) return [`started ${calls.get(mark)} times: ${line}`]
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

/** Every accepted piece of slow work told its receiver that it ended. */
function webhookBreaches(submissions: readonly Submission[], receiver: Receiver): string[] {
  const told = new Set(receiver.received.map(({ body }) => (JSON.parse(body) as { data: { id: string } }).data.id))
  return submissions.flatMap(({ id }) => (id === null || told.has(id) ? [] : [`no webhook for ${id}`]))
}

async function ledgerBreaches({ postgres, redis, env }: World): Promise<string[]> {
  const { exitCode, report } = await ledgerCheck({ databaseUrl: postgres.url, redisUrl: redis.url }, env)
  if (exitCode === 0) return []
  return report.invariants.flatMap(({ name, breaches }) => breaches.map(breach => `ledger check, ${name}: ${breach}`))
}

/** How many of each kind of request ended how, as one line per kind. */
export function summarise({ directs, submissions }: Load): string[] {
  const outcomes = directs.map(({ kind, outcome, status, code }) =>
    outcome === 'refused' ? `${kind}: ${status} ${code}` : `${kind}: ${outcome}`,
  )
  const kinds = submissions.map(({ kind, answers }) => `${kind}: ${answers.length > 1 ? 'after retries' : 'at once'}`)
  return Object.entries(Object.groupBy([...outcomes, ...kinds], it => it))
    .map(([name, all]) => `${name} ${all!.length}`)
    .sort()
}
