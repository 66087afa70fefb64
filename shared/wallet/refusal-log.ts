import type { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { redactMessage } from '../base/redact.ts'
import type { Clock } from '../base/time.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Logger } from '../io/log.ts'
import type { RawPool } from '../io/raw-pool.ts'
import { storableJson } from './storable-json.ts'

/** A call of a known key that was answered with an error before it ran. */
export type Refusal = {
  policy: { organisationId: string; keyId: string; environment: 'live' | 'test' }
  kind: string
  /** The model that was asked for, if the catalog has it; otherwise ''. */
  model: string
  requestId: string
  failure: GatewayError
  status: number
  streamed: boolean
  startedMs: number
  durationMs: number
}

/** A row of the request log, by the names of `columns`; `calls` grows while the row stands for more calls. */
type Row = {
  id: string
  at: number
  calls: number
  saved: boolean
  [column: string]: unknown
}

/** What a key was refused in the current minute. */
type Tally = { rows: number; sums: Map<string, Row> }

/** Calls per key and minute that get a row of their own. */
const maxOwnRows = 20
/** Sums per key and minute by code, kind and model; further ones are by code alone. */
const maxSums = 50
const maxPending = 5_000
const maxRowsPerInsert = 1_000
const flushMs = 1_000
const minuteMs = 60_000

/**
 * Writes refused calls to the request log, in the background. The first calls of each key and minute are rows of their own; more
 * of them are summed in a row per code, kind and model, under the id of the first one.
 */
export class RefusalLog {
  readonly #deps: { rawPool: RawPool; clock: Clock; log: Logger }
  readonly #tallies = new Map<string, Tally>()
  #minute = 0
  #pending = new Map<string, Row>()
  #dropped = 0
  #timer: NodeJS.Timeout | null = null
  #flushing: Promise<void> = Promise.resolve()
  #closed = false

  constructor(deps: { rawPool: RawPool; clock: Clock; log: Logger }) {
    this.#deps = deps
  }

  /**
   * Adds a refused call, except one that ran: its run is logged. Returns the id of the row that is of this call; null for
   * further calls of a sum.
   */
  add(refusal: Refusal): string | null {
    if ('x-generation-id' in refusal.failure.headers) return null
    const row = this.#rowOf(refusal)
    row.calls++
    const isKept = this.#pending.has(row.id) || this.#pending.size < maxPending
    if (isKept) this.#pending.set(row.id, row)
    else this.#dropped++
    this.#schedule()
    return isKept && row.calls === 1 ? row.id : null
  }

  /** Writes what is pending. Never rejects: rows that cannot be written are tried again. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#write())
    return this.#flushing
  }

  /** Writes what is pending, once. */
  async close(): Promise<void> {
    this.#closed = true
    if (this.#timer) clearTimeout(this.#timer)
    await this.flush()
    if (this.#pending.size > 0) this.#deps.log.error({ rows: this.#pending.size }, 'refused calls were not logged')
  }

  /** The row that a call belongs to. */
  #rowOf(refusal: Refusal): Row {
    const minute = Math.floor(this.#deps.clock.now() / minuteMs)
    if (minute !== this.#minute) {
      this.#minute = minute
      this.#tallies.clear()
    }
    const { policy, kind, model, failure } = refusal
    let tally = this.#tallies.get(policy.keyId)
    if (!tally) this.#tallies.set(policy.keyId, (tally = { rows: 0, sums: new Map() }))
    if (tally.rows++ < maxOwnRows) return newRow(refusal)
    const exact = `${failure.code} ${kind} ${model}`
    const name = tally.sums.has(exact) || tally.sums.size < maxSums ? exact : failure.code
    let sum = tally.sums.get(name)
    if (!sum) tally.sums.set(name, (sum = newRow(refusal)))
    return sum
  }

  #schedule(): void {
    if (this.#timer || this.#closed) return
    const flush = () => {
      this.#timer = null
      void this.flush()
    }
    this.#timer = setTimeout(flush, flushMs).unref()
  }

  async #write(): Promise<void> {
    const { log } = this.#deps
    const rows = [...this.#pending.values()]
    this.#pending = new Map()
    if (this.#dropped > 0) log.warn({ calls: this.#dropped }, 'too many refused calls wait: some are not logged')
    this.#dropped = 0
    // Updates and inserts each lock the sums of usage in their own order, so they are separate transactions.
    const groups = [rows.filter(({ saved }) => saved), rows.filter(({ saved }) => !saved)]
    for (const group of groups)
      for (let i = 0; i < group.length; i += maxRowsPerInsert) await this.#insert(group.slice(i, i + maxRowsPerInsert))
  }

  async #insert(rows: Row[]): Promise<void> {
    const { rawPool, log } = this.#deps
    const json = storableJson(rows)
    try {
      await rawPool.transaction(run => run(insertSql(json)))
      for (const row of rows) row.saved = true
    } catch (error) {
      log.warn({ err: error, rows: rows.length }, 'cannot log refused calls; they are tried again')
      for (const row of rows) if (this.#pending.size < maxPending) this.#pending.set(row.id, row)
      this.#schedule()
    }
  }
}

function newRow({ policy, failure, startedMs, ...refusal }: Refusal): Row {
  const { organisationId: org, keyId: key, environment } = policy
  const { code: errorCode, message, param } = failure
  const errorMessage = redactMessage(message)
  const errorParam = param && redactMessage(param)
  return {
    ...refusal,
    id: newId('call'),
    at: startedMs,
    org,
    key,
    environment,
    errorCode,
    errorMessage,
    errorParam,
    calls: 0,
    saved: false,
  }
}

/** Idempotent: `calls` is the total so far. */
function insertSql(json: string): Prisma.Sql {
  return Prisma.sql`
    INSERT INTO generations (id, created_at, organisation_id, key_id, request_id, kind, environment, model, status, error_code,
      error_message, error_param, streamed, duration_ms, calls, attempts, prompt_tokens, completion_tokens, cached_tokens,
      reasoning_tokens, estimated, cost_nano)
    SELECT id, to_timestamp(at / 1000.0), org, key, "requestId", kind, environment, model, status, "errorCode",
      "errorMessage", "errorParam", streamed, "durationMs", calls, 0, 0, 0, 0, 0, false, 0
    FROM jsonb_to_recordset(${json}::jsonb) AS r(id text, at bigint, org text, key text, "requestId" text, kind text,
      environment environment, model text, status int, "errorCode" text, "errorMessage" text, "errorParam" text, streamed boolean,
      "durationMs" int, calls int)
    ORDER BY id
    ON CONFLICT (id, created_at) DO UPDATE SET calls = excluded.calls WHERE generations.calls < excluded.calls`
}
