// The load model: how many processes, shards of Redis and PostgreSQL primaries a target needs. Pure arithmetic over
// bench/capacity.json, whose `work` are counts of bench/counts.ts. `node bench/capacity.ts [file]` prints the plan.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

type Work = { redisCommands: number; rowsInserted: number; rowsUpdated: number; walBytes: number; storedBytes: number }
type Rates = Record<string, number>

export type Model = {
  target: {
    requestsPerSecond: Rates
    unitsPerDay: Rates
    realtimeSessions: number
  }
  parameters: {
    /** The share of its capacity that each part is planned for. */
    utilisation: number
    /** Processor time of a web process per request, without chunks. */
    webCpuUs: Rates
    chunksPerStream: number
    webCpuUsPerChunk: number
    webCpuUsPerRealtimeSecond: number
    /** Commands, those inside of scripts included, that one Redis executes per second. */
    shardCommandsPerSecond: number
    eventsPerLedgerWorkerPerSecond: number
    postgresRowsPerSecond: number
    postgresWalMbPerSecond: number
    /** Delayed and media jobs that one worker process runs per second. */
    jobsPerWorkerPerSecond: number
  }
  /** Per unit of work. */
  work: Record<string, Work>
}

export type Plan = {
  webProcesses: number
  /** How long a request waits for a busy web process, at the planned utilisation. */
  webWaitP99Ms: number
  ledgerWorkers: number
  jobWorkers: number
  redisCommandsPerSecond: number
  redisShards: number
  postgresRowsPerSecond: number
  postgresWalMbPerSecond: number
  postgresPrimaries: number
  storedGbPerDay: number
}

const secondsPerDay = 86_400
const secondsPerMinute = 60

export function readModel(path = join(import.meta.dirname, 'capacity.json')): Model {
  return JSON.parse(readFileSync(path, 'utf8'))
}

export function plan({ target, parameters: p, work }: Model): Plan {
  const perSecond: Rates = {
    ...target.requestsPerSecond,
    ...Object.fromEntries(Object.entries(target.unitsPerDay).map(([kind, units]) => [kind, units / secondsPerDay])),
    'realtime minute': target.realtimeSessions / secondsPerMinute,
  }
  const sum = (of: (work: Work) => number) =>
    Object.entries(perSecond).reduce((total, [kind, rate]) => total + rate * of(work[kind]!), 0)
  const servers = (load: number, capacity: number) => Math.ceil(load / (capacity * p.utilisation))

  const requests = Object.values(target.requestsPerSecond).reduce((total, rate) => total + rate, 0)
  const webCpuS = webSeconds(target, p)
  const redisCommandsPerSecond = sum(it => it.redisCommands)
  const postgresRowsPerSecond = sum(it => it.rowsInserted + it.rowsUpdated)
  const postgresWalMbPerSecond = sum(it => it.walBytes) / 1e6
  const byRows = servers(postgresRowsPerSecond, p.postgresRowsPerSecond)
  const byWal = servers(postgresWalMbPerSecond, p.postgresWalMbPerSecond)
  const jobs = (perSecond['delayed job'] ?? 0) + (perSecond['media job'] ?? 0)
  return {
    webProcesses: servers(webCpuS, 1),
    webWaitP99Ms: waitMs(0.99, p.utilisation, (webCpuS / requests) * 1_000),
    ledgerWorkers: servers(requests, p.eventsPerLedgerWorkerPerSecond),
    jobWorkers: servers(jobs, p.jobsPerWorkerPerSecond),
    redisCommandsPerSecond,
    redisShards: servers(redisCommandsPerSecond, p.shardCommandsPerSecond),
    postgresRowsPerSecond,
    postgresWalMbPerSecond,
    postgresPrimaries: Math.max(byRows, byWal),
    storedGbPerDay: (sum(it => it.storedBytes) * secondsPerDay) / 1e9,
  }
}

/** Seconds of processor time that web processes need per second. */
function webSeconds({ requestsPerSecond, realtimeSessions }: Model['target'], p: Model['parameters']): number {
  const chunksUs = (requestsPerSecond['chat, streamed'] ?? 0) * p.chunksPerStream * p.webCpuUsPerChunk
  const requestsUs = Object.entries(requestsPerSecond).reduce((us, [kind, rate]) => us + rate * p.webCpuUs[kind]!, 0)
  return (requestsUs + chunksUs + realtimeSessions * p.webCpuUsPerRealtimeSecond) / 1e6
}

/** A quantile of the waiting time before one server, for random arrivals and service times (M/M/1). */
function waitMs(quantile: number, utilisation: number, serviceMs: number): number {
  return Math.max(0, (Math.log(utilisation / (1 - quantile)) * serviceMs) / (1 - utilisation))
}

/** The plan as rows of a Markdown table. */
export function formatPlan(plan: Plan): string[] {
  const round = (value: number) => Number(value.toPrecision(3)).toLocaleString('en')
  return [
    `| web processes | ${round(plan.webProcesses)} |`,
    `| wait for a web process, p99 | ${round(plan.webWaitP99Ms)} ms |`,
    `| worker processes for bookings | ${round(plan.ledgerWorkers)} |`,
    `| worker processes for jobs | ${round(plan.jobWorkers)} |`,
    `| Redis commands per second | ${round(plan.redisCommandsPerSecond)} |`,
    `| Redis shards | ${round(plan.redisShards)} |`,
    `| PostgreSQL rows written per second | ${round(plan.postgresRowsPerSecond)} |`,
    `| PostgreSQL write-ahead log | ${round(plan.postgresWalMbPerSecond)} MB/s |`,
    `| PostgreSQL primaries | ${round(plan.postgresPrimaries)} |`,
    `| growth of the database | ${round(plan.storedGbPerDay)} GB per day |`,
  ]
}

if (import.meta.main) for (const line of formatPlan(plan(readModel(process.argv[2])))) console.log(line)
