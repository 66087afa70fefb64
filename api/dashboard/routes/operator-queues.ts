/**
 * Operator › Queues: what operators used Bull Board for, without its 96 packages, its own look and its own content policy, and
 * with entries in the audit log. Workers record completed entries per minute for an hour (BullMQ's metrics): one more Redis
 * write per entry. Entries are ids, so no job data is shown. Media jobs, delayed jobs, batches and webhooks keep their state in
 * tables and forget ended entries: failed ones are those of housekeeping and emails. For the others, entries that wait for a
 * retry show why they failed.
 */

import type { Job, Queue } from 'bullmq'
import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { type Actor, audit } from '../../../shared/io/audit.ts'
import type { Platform } from '../../../shared/platform.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import type { EntriesChanged, QueueEntries, QueueEntry, QueueState, QueuesAnswer } from '../wire/operator-home.ts'

const base = '/dashboard/api/operator/queues'
const shared = { tag: 'Dashboard', access: 'operator' } as const
const shownMinutes = 30
const maxListed = 100
/** Entries of one change: a queue keeps at most 5,000 failed ones. */
const maxChanged = 5_000
const concurrentChanges = 50

const list = endpoint({
  ...shared,
  method: 'get',
  path: base,
  summary: 'List queues with their backlog and throughput',
  answers: { 200: { description: 'The queues.' } },
  async handle({ services }): Promise<QueuesAnswer> {
    return { data: await Promise.all(Object.values(services.queues).map(stateOf)) }
  },
})

async function stateOf(queue: Queue): Promise<QueueState> {
  const [counts, paused, workers, [waiting], [prioritized], metrics] = await Promise.all([
    queue.getJobCounts('waiting', 'prioritized', 'active', 'delayed', 'failed'),
    queue.isPaused(),
    queue.getWorkersCount(),
    queue.getJobs(['waiting'], 0, 0, true),
    queue.getJobs(['prioritized'], 0, 0, true),
    queue.getMetrics('completed', 0, shownMinutes - 1),
  ])
  const oldestMs = [waiting, prioritized].flatMap(job => (job ? job.timestamp : [])).sort((a, b) => a - b)[0]
  return {
    name: queue.name,
    paused,
    workers,
    active: counts.active ?? 0,
    delayed: counts.delayed ?? 0,
    failed: counts.failed ?? 0,
    waiting: (counts.waiting ?? 0) + (counts.prioritized ?? 0),
    oldest_at: oldestMs === undefined ? null : new Date(oldestMs).toISOString(),
    // The latest comes first.
    completed: metrics.data.map(Number).reverse(),
  }
}

const change = endpoint({
  ...shared,
  method: 'patch',
  path: `${base}/{queue}`,
  summary: 'Pause or resume a queue: while it is paused, no entry is started',
  body: z.strictObject({ paused: z.boolean() }),
  answers: { 200: { description: 'The queue.' } },
  errors: ['not_found'],
  async handle({ services, params, body: { paused }, actor }): Promise<QueueState> {
    const queue = queueOf(services, params.queue!)
    const was = await queue.isPaused()
    if (was !== paused) {
      await (paused ? queue.pause() : queue.resume())
      await auditQueue(services, queue, actor, paused ? 'queue.paused' : 'queue.resumed')
    }
    return stateOf(queue)
  },
})

const entries = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/{queue}/entries`,
  summary: 'List the entries of a queue in one state, oldest first',
  query: z.strictObject({
    state: z.enum(['failed', 'delayed', 'active', 'waiting']).default('failed'),
    limit: z.coerce.number().int().min(1).max(maxListed).default(20),
    offset: z.coerce.number().int().min(0).max(1_000_000).default(0),
  }),
  answers: { 200: { description: 'A page of entries.' } },
  errors: ['not_found'],
  async handle({ services, params, query: { state, limit, offset } }): Promise<QueueEntries> {
    const queue = queueOf(services, params.queue!)
    const states = state === 'waiting' ? (['waiting', 'prioritized'] as const) : [state]
    const [jobs, total] = await Promise.all([
      queue.getJobs([...states], offset, offset + limit - 1, true),
      queue.getJobCountByTypes(...states),
    ])
    // An entry that is gone by now is missing.
    return {
      data: jobs
        .filter(job => job !== undefined)
        .slice(0, limit)
        .map(present),
      total,
    }
  },
})

/** Only the ids of entries are shown: their data is either an id or has one. */
function present(job: Job): QueueEntry {
  const data: unknown = job.data
  const values = typeof data === 'object' && data !== null ? Object.values(data) : [data]
  const due = job.delay > 0 && !job.finishedOn ? (job.processedOn ?? job.timestamp) + job.delay : null
  return {
    id: job.id ?? '',
    task: job.name,
    of: values.find(value => typeof value === 'string') ?? null,
    attempts: job.attemptsMade,
    reason: job.failedReason?.slice(0, 500) || null,
    added_at: new Date(job.timestamp).toISOString(),
    due_at: due === null ? null : new Date(due).toISOString(),
  }
}

const ids = z.array(z.string().min(1).max(300)).min(1).max(maxListed)

const retry = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{queue}/retry`,
  summary: 'Run entries again: failed ones, or delayed ones before their time',
  body: z.strictObject({ ids: ids.optional().describe('Default: all failed entries.') }),
  answers: { 200: { description: 'How many were queued again.' } },
  errors: ['not_found'],
  async handle({ services, params, body, actor }): Promise<EntriesChanged> {
    const queue = queueOf(services, params.queue!)
    const jobs = await readJobs(queue, body.ids)
    const changed = await changeEach(jobs, async job => {
      if (await job.isFailed()) await job.retry('failed')
      else await job.promote()
    })
    await auditQueue(services, queue, actor, 'queue.entries_retried', changed)
    return changed
  },
})

const remove = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{queue}/remove`,
  summary: 'Remove entries that are not running',
  body: z.strictObject({ ids: ids.optional().describe('Default: all failed entries.') }),
  answers: { 200: { description: 'How many were removed.' } },
  errors: ['not_found'],
  async handle({ services, params, body, actor }): Promise<EntriesChanged> {
    const queue = queueOf(services, params.queue!)
    const changed = await changeEach(await readJobs(queue, body.ids), job => job.remove())
    await auditQueue(services, queue, actor, 'queue.entries_removed', changed)
    return changed
  },
})

/** Throws 404. */
function queueOf({ queues }: Platform, name: string): Queue {
  if (!Object.hasOwn(queues, name)) throw new GatewayError('not_found', 'No such queue.')
  return queues[name as keyof typeof queues]
}

/** The named entries, undefined where there is none; or all failed ones. */
async function readJobs(queue: Queue, wanted: readonly string[] | undefined): Promise<(Job | undefined)[]> {
  if (!wanted) return queue.getFailed(0, maxChanged - 1)
  return Promise.all(wanted.map(id => queue.getJob(id)))
}

/** Applies a change to each entry. One that is running, gone or periodic is skipped. */
async function changeEach(
  jobs: readonly (Job | undefined)[],
  apply: (job: Job) => Promise<unknown>,
): Promise<EntriesChanged> {
  let changed = 0
  for (let at = 0; at < jobs.length; at += concurrentChanges) {
    const part = jobs.slice(at, at + concurrentChanges)
    const results = await Promise.allSettled(part.map(job => (job ? apply(job) : Promise.reject(new Error('gone')))))
    changed += results.filter(({ status }) => status === 'fulfilled').length
  }
  return { changed, skipped: jobs.length - changed }
}

/** The change is in Redis, so its entry in the audit log follows it. */
async function auditQueue({ db }: Platform, queue: Queue, actor: Actor, action: string, counts?: EntriesChanged) {
  const target = { id: queue.name, name: queue.name }
  const changes = counts && { changes: { entries: [null, counts.changed] as [null, number] } }
  await audit(db, { organisationId: null, actor, action, target, ...changes })
}

export const operatorQueueRoutes: Endpoint[] = [list, change, entries, retry, remove]
