import type pg from 'pg'

// A plausible month of requests, put straight into the database: day and night, popular and rare models, errors of every class,
// an outage of a provider, end users and sessions, and other organisations beside. Random, but the same in every run.

const otherOrganisations = 20
/** The share of all requests that is of other organisations. */
const otherShare = 0.2
const days = 30
/** The outage is on this day, counted back from now, 07–10 UTC. */
export const outageDaysAgo = 5
export const outageProvider = 'anthropic'

const models: [share: number, model: string, provider: string, nanoPerToken: number][] = [
  [0.34, 'gpt-5-mini', 'openai', 2_000],
  [0.18, 'claude-sonnet-4-6', outageProvider, 15_000],
  [0.14, 'gemini-2.5-flash', 'gemini', 2_500],
  [0.1, 'gpt-5', 'openai', 10_000],
  [0.08, 'claude-haiku-4-5', outageProvider, 5_000],
  [0.07, 'grok-4.3', 'xai', 790],
  [0.05, 'deepseek-v3.2', 'deepseek', 420],
  [0.0398, 'text-embedding-3-small', 'openai', 20],
  [0.0002, 'kimi-k2.6', 'fireworks', 2_500],
]
/** Of those that fail; 401 to 429 are refused before they run. */
const failures: [share: number, status: number, code: string, message: string][] = [
  [0.3, 429, 'rate_limit_exceeded', 'The key may send 600 requests per minute.'],
  [0.18, 400, 'invalid_request', '`messages.0.content` is too long.'],
  [0.14, 502, 'upstream_error', 'Every provider that could serve this request failed.'],
  [0.1, 499, 'client_closed_request', 'The client disconnected.'],
  [0.08, 402, 'insufficient_credits', 'The organisation has no credits left.'],
  [0.07, 503, 'upstream_overloaded', 'The provider is overloaded.'],
  [0.05, 404, 'model_not_found', 'No such model.'],
  [0.04, 403, 'model_not_allowed', 'The key may not call this model.'],
  [0.03, 401, 'expired_api_key', 'The key has expired.'],
  [0.01, 504, 'upstream_timeout', 'The provider did not answer in time.'],
]
const failureShare = 0.04
const keyNames = ['Web app', 'Mobile app', 'Support agent', 'Search', 'Data team', 'Evaluation', 'Staging', 'Cron']

export type Month = { keyIds: string[]; organisationId: string }

/** The funds are more than any test spends. */
const defaults = { depositUsd: 900_000_000, capUsd: 900_000, lastMoment: 0 }

/**
 * Fills the tables for an organisation of `userId` in the 30 days before `nowMs`. The partitions of both months must exist.
 * `depositUsd`: what each organisation has paid in; `capUsd`: the monthly cap of its keys; `lastMoment`: how many of its paid requests
 * there are once more at `nowMs` itself, so that there are some of this month on its first day.
 */
export async function fillMonth(
  db: pg.Client,
  organisationId: string,
  userId: string,
  requests: number,
  nowMs: number,
  options: Partial<typeof defaults> = {},
): Promise<Month> {
  const { depositUsd, capUsd, lastMoment } = { ...defaults, ...options }
  await db.query("SET TIME ZONE 'UTC'") // As the gateway's own sessions.
  await db.query(`SELECT setseed(0.5)`)
  await db.query(base36)
  // Months that are closed by now are filled as they were booked in their time.
  await db.query('ALTER TABLE ledger_entries DISABLE TRIGGER date_entry')
  const keyIds = keyNames.map((_, i) => `key_month${i}`)
  await makeOrganisations(db, organisationId, userId, keyIds, capUsd)
  const perDay = Math.round(requests / (1 - otherShare) / days)
  for (let day = days; day > 0; day--) {
    const from = new Date(nowMs - day * 86_400_000)
    const inserted = await insertDay(db, organisationId, from, perDay)
    if (inserted !== perDay) throw new Error('some of the requests were not inserted')
    await db.query(chargesOfDay, [from])
  }
  const now = new Date(nowMs)
  await db.query(repeatLatest, [organisationId, now, lastMoment])
  await db.query(chargesOfDay, [now])
  // Paid before anything is spent, so that no balance of the statement is below zero.
  const paidAt = new Date(nowMs - days * 86_400_000 - 60_000)
  await db.query(`${sumsOf(depositUsd, paidAt)}; ALTER TABLE ledger_entries ENABLE TRIGGER date_entry`)
  await fillOthers(db, organisationId, keyIds[0]!)
  await db.query('VACUUM ANALYZE')
  return { keyIds, organisationId }
}

const base36 = `
  CREATE FUNCTION pg_temp.base36(n BIGINT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
    SELECT string_agg(substr('0123456789abcdefghijklmnopqrstuvwxyz', (n / (36 ^ i)::bigint % 36)::int + 1, 1), '' ORDER BY i DESC)
    FROM generate_series(0, 8) AS i
  $$`

async function makeOrganisations(
  db: pg.Client,
  organisationId: string,
  userId: string,
  keyIds: string[],
  capUsd: number,
) {
  await db.query(
    `INSERT INTO organisations (id, name, slug) SELECT 'org_other' || i, 'Other ' || i, 'other' || i FROM generate_series(0, $1 - 1) AS i`,
    [otherOrganisations],
  )
  const insert = `
    INSERT INTO api_keys (id, organisation_id, hash, prefix, last4, name, environment, monthly_spend_cap_nano, model_allowlist,
      created_by_id, updated_at)`
  const shape = `encode(sha256(id::bytea), 'hex'), 'svc_sk_live_', right(id, 4)`
  await db.query(
    `${insert} SELECT id, $1, ${shape}, name, (CASE name WHEN 'Staging' THEN 'test' ELSE 'live' END)::environment,
       ${capUsd}::bigint * 1000000000, '{}', $2, now()
     FROM unnest($3::text[], $4::text[]) AS key(id, name)`,
    [organisationId, userId, keyIds, keyNames],
  )
  await db.query(`${insert} SELECT id, org, ${shape}, 'Theirs', 'live', NULL, '{}', NULL, now()
    FROM (SELECT 'key_other' || i AS id, 'org_other' || i AS org FROM generate_series(0, ${otherOrganisations - 1}) AS i) AS key`)
}

const text = (values: readonly (string | number)[]) => `ARRAY[${values.map(value => `'${value}'`).join(', ')}]`
const numbers = (values: readonly number[]) => `ARRAY[${values.join(', ')}]`

/** The lower bounds of shares, for `width_bucket`. */
function boundsOf(rows: readonly [share: number, ...rest: unknown[]][]): string {
  const bounds = rows.map((_, i) => rows.slice(0, i).reduce((sum, [share]) => sum + share, 0))
  return `${numbers(bounds)}::float[]`
}

/** One day's requests: in order of time, five times as many by day as by night. */
async function insertDay(db: pg.Client, organisationId: string, from: Date, count: number): Promise<number> {
  const { rowCount } = await db.query(
    `INSERT INTO generations (id, created_at, organisation_id, key_id, request_id, upstream_id, kind, environment, model, provider,
       mode, status, error_code, error_message, finish_reason, streamed, attempts, prompt_tokens, completion_tokens, cached_tokens,
       reasoning_tokens, estimated, cost_nano, first_byte_ms, duration_ms, routing, parameters, metadata, end_user, session,
       overhead_ms)
     SELECT 'chatcmpl-' || stamp || tail, at, org, key, 'req_' || stamp || reverse(tail), CASE WHEN ran THEN 'chatcmpl-up' || tail END,
       CASE WHEN model LIKE 'text-embedding%' THEN 'embedding' ELSE 'chat' END, environment, model, CASE WHEN ran THEN provider END,
       'balanced', status, code, message, CASE WHEN status = 200 THEN 'stop' END, r6 < 0.6, CASE WHEN ran THEN 1 ELSE 0 END,
       prompt, completion, CASE WHEN r5 < 0.3 THEN prompt / 2 ELSE 0 END, 0, false,
       CASE WHEN status = 200 AND environment = 'live' THEN (prompt / 4 + completion) * nano_per_token ELSE 0 END,
       CASE WHEN status = 200 THEN duration / 4 END, CASE WHEN ran THEN duration ELSE 3 END,
       CASE WHEN status >= 500 THEN jsonb_build_object('attempts', jsonb_build_array(jsonb_build_object('provider', provider, 'model',
         model, 'status', NULL, 'fault', 'server_error', 'durationMs', duration, 'startedMs', 2, 'message', 'Overloaded'))) END,
       jsonb_build_object('temperature', 0.7, 'max_tokens', 1024, 'stream', r6 < 0.6), jsonb_build_object('feature', 'f' || (r6 * 9)::int),
       CASE WHEN r7 < 0.5 THEN 'user-' || (r6 * 5000)::int END, CASE WHEN r7 < 0.4 THEN 'session-' || (r5 * 50000)::int END, 2
     FROM (
       SELECT *, (${text(models.map(([, name]) => name))})[m] AS model, (${text(models.map(([, , name]) => name))})[m] AS provider,
         (${numbers(models.map(([, , , price]) => price))})[m]::bigint AS nano_per_token,
         CASE WHEN failed THEN (${numbers(failures.map(([, status]) => status))})[f] ELSE 200 END AS status,
         CASE WHEN failed THEN (${text(failures.map(([, , code]) => code))})[f] END AS code,
         CASE WHEN failed THEN (${text(failures.map(([, , , message]) => message))})[f] END AS message,
         NOT failed OR (${numbers(failures.map(([, status]) => status))})[f] >= 499 AS ran,
         (CASE WHEN org = $1 AND key = 'key_month6' THEN 'test' ELSE 'live' END)::environment AS environment,
         pg_temp.base36((extract(epoch FROM at) * 1000)::bigint) AS stamp,
         (150 + 3000 * r4 * r4 * r4 + CASE WHEN r5 < 0.01 THEN 20000 ELSE 0 END)::int AS duration,
         (200 + 3000 * r4)::int AS prompt, CASE WHEN failed THEN 0 ELSE (20 + 800 * r5 * r5)::int END AS completion
       FROM (
         SELECT *, r2 < CASE WHEN m IN (2, 5) AND is_outage THEN 0.64 ELSE ${failureShare} END AS failed,
           CASE WHEN m IN (2, 5) AND is_outage THEN 3 ELSE width_bucket(r3, ${boundsOf(failures)}) END AS f
         FROM (
           SELECT *, width_bucket(r1, ${boundsOf(models)}) AS m,
             at::date = (now() - interval '${outageDaysAgo} days')::date AND extract(hour FROM at AT TIME ZONE 'UTC') BETWEEN 7 AND 9 AS is_outage,
             CASE WHEN r8 < ${otherShare} THEN 'org_other' || floor(r9 * ${otherOrganisations}) ELSE $1 END AS org,
             CASE WHEN r8 < ${otherShare} THEN 'key_other' || floor(r9 * ${otherOrganisations})
               WHEN r9 < 0.00005 THEN 'key_month7' ELSE 'key_month' || floor(r9 * r9 * 7) END AS key
           FROM (
             SELECT $2::timestamptz + interval '1 day' * (x + 0.1 * sin(2 * pi() * x)) AS at, random() AS r1, random() AS r2,
               random() AS r3, random() AS r4, random() AS r5, random() AS r6, random() AS r7, random() AS r8, random() AS r9,
               substr(md5(random()::text), 1, 15) AS tail
             FROM (SELECT i / $3::float AS x FROM generate_series(0, $3 - 1) AS i) s
           ) drawn
         ) chosen
       ) outcome
     ) made`,
    [organisationId, from, count],
  )
  return rowCount ?? 0
}

const repeatLatest = `
  INSERT INTO generations
  SELECT (jsonb_populate_record(g, jsonb_build_object('id', g.id || 'n', 'created_at', $2::timestamptz))).*
  FROM generations g WHERE organisation_id = $1 AND status = 200 AND cost_nano > 0 ORDER BY created_at DESC LIMIT $3`

const chargesOfDay = `
  INSERT INTO ledger_entries (organisation_id, kind, amount_nano, cause, key_id, created_at)
  SELECT organisation_id, 'charge', -cost_nano, 'generation:' || id, key_id, created_at + interval '1 ms' * duration_ms
  FROM generations WHERE created_at >= $1 AND created_at < $1::timestamptz + interval '1 day' AND cost_nano > 0 ORDER BY created_at`

/** Deposits, balances and the months of keys, such that the ledger check holds. */
const sumsOf = (depositUsd: number, paidAt: Date) => `
  INSERT INTO ledger_entries (organisation_id, kind, amount_nano, cause, method, created_at)
    SELECT id, 'deposit', ${depositUsd}::bigint * 1000000000, 'deposit:' || id, 'grant', '${paidAt.toISOString()}'::timestamptz
    FROM organisations;
  INSERT INTO wallets (organisation_id, balance_nano, version)
    SELECT organisation_id, sum(amount_nano), 1 FROM ledger_entries GROUP BY 1
    ON CONFLICT (organisation_id) DO UPDATE SET balance_nano = excluded.balance_nano, version = 1;
  INSERT INTO key_spend (key_id, month, spent_nano, requests)
    SELECT key_id, to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM'), -sum(amount_nano), count(*)
    FROM ledger_entries WHERE key_id IS NOT NULL GROUP BY 1, 2`

/** Audit events, finished jobs and batches with their deliveries: some thousands of each. */
async function fillOthers(db: pg.Client, organisationId: string, keyId: string): Promise<void> {
  const ago = `now() - interval '10 minutes' * i`
  await db.query(
    `INSERT INTO audit_events (id, organisation_id, actor_kind, actor_name, action, created_at)
     SELECT 'aud_' || i, $1, 'operator', 'operator', 'key.updated', ${ago} FROM generate_series(1, 5000) AS i`,
    [organisationId],
  )
  await db.query(
    `INSERT INTO jobs (id, organisation_id, key_id, request_id, environment, kind, status, stage, model, provider, input, month,
       created_at, started_at, completed_at, deadline_at)
     SELECT 'job_' || i, $1, $2, 'req_job' || i, 'test', 'video', 'completed', 'over', 'veo-3.1', 'gemini', '{"prompt": "A lock"}',
       '2026-01', ${ago}, ${ago}, ${ago}, ${ago} FROM generate_series(1, 3000) AS i`,
    [organisationId, keyId],
  )
  await db.query(
    `INSERT INTO webhook_deliveries (id, organisation_id, job_id, type, url, status, attempts, next_attempt_at, created_at)
     SELECT 'evt_' || i, $1, 'job_' || i, 'job.completed', 'https://example.com/hook', 'delivered', 1, ${ago}, ${ago}
     FROM generate_series(1, 3000) AS i`,
    [organisationId],
  )
  await db.query(
    `INSERT INTO batches (id, organisation_id, key_id, request_id, environment, endpoint, status, input_file_id, input_key, input_bytes,
       month, total, completed, created_at, deadline_at, completed_at)
     SELECT 'batch_' || i, $1, $2, 'req_batch' || i, 'test', '/v1/chat/completions', 'completed', 'file-' || i, 'file-' || i, 1,
       '2026-01', 9, 9, ${ago}, ${ago}, ${ago} FROM generate_series(1, 1000) AS i`,
    [organisationId, keyId],
  )
  await db.query(
    `INSERT INTO top_ups (id, organisation_id, amount_nano, method, status, checkout_session_id, created_at, updated_at)
     SELECT 'top_' || i, $1, 10000000000, 'card', 'expired', 'cs_' || i, ${ago}, ${ago} FROM generate_series(1, 300) AS i`,
    [organisationId],
  )
}
