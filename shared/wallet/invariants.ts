/** The invariants that can be checked in PostgreSQL alone, each as a query of its breaches. */

/** Maximum breaches reported per invariant. */
export const maxBreaches = 50
/** Maximum characters before the request id in a journal line: a custom id of 512 characters, each escaped, precedes it. */
const maxBeforeRequest = 4_000

// Each query returns at least one row, with the count, and one row per breach.
const report = (body: string) => `
  WITH facts AS (${body}), n AS (SELECT count(*) AS checked FROM facts)
  SELECT n.checked, f.subject, f.found::text, f.expected::text FROM n
  LEFT JOIN (SELECT * FROM facts WHERE found IS DISTINCT FROM expected LIMIT ${maxBreaches}) f ON true`

export const BALANCES = report(`
  SELECT o.id AS subject, coalesce(w.balance_nano, 0)::numeric AS found, coalesce(sum(l.amount_nano), 0) AS expected
  FROM organisations o LEFT JOIN wallets w ON w.organisation_id = o.id LEFT JOIN ledger_entries l ON l.organisation_id = o.id
  GROUP BY o.id, w.balance_nano`)
// Over all months and month by month. The previous release booked entries without the month that they count in: a key is compared
// from the first whole month after the last of them.
export const KEY_SPENDS = report(`
  WITH charged AS (
    SELECT key_id, month, sum(-amount_nano) AS spent, max(created_at) AS last FROM ledger_entries
    WHERE key_id IS NOT NULL GROUP BY key_id, month
  ), compared AS (
    SELECT k.id AS key_id, to_char(c.last AT TIME ZONE 'UTC' + interval '1 day', 'YYYY-MM') AS after
    FROM api_keys k LEFT JOIN charged c ON c.key_id = k.id AND c.month IS NULL
  )
  SELECT coalesce(s.key_id, c.key_id) AS subject, coalesce(s.spent, 0) AS found, coalesce(c.spent, 0) AS expected
  FROM (SELECT key_id, sum(spent_nano) AS spent FROM key_spend GROUP BY key_id) s
  FULL JOIN (SELECT key_id, sum(spent) AS spent FROM charged GROUP BY key_id) c USING (key_id)
  UNION ALL
  SELECT key_id || ' ' || month, coalesce(s.spent_nano, 0), coalesce(c.spent, 0)
  FROM key_spend s FULL JOIN (SELECT * FROM charged WHERE month IS NOT NULL) c USING (key_id, month) JOIN compared USING (key_id)
  WHERE after IS NULL OR month > after`)
export const CAPS = report(`
  SELECT key_id || ' ' || month AS subject, spent_nano - excess_nano AS found, least(spent_nano - excess_nano, cap_nano) AS expected
  FROM key_spend WHERE cap_nano IS NOT NULL`)
const oldestMonth = `(SELECT min((replace(right(tablename, 7), '_', '-') || '-01T00:00:00Z')::timestamptz) FROM pg_tables
    WHERE schemaname = 'partitions' AND tablename ~ '^generations_[0-9]{4}_[0-9]{2}$')`
// Charges are kept forever; requests only back to the oldest partition of the request log.
export const CHARGES = report(`
  SELECT coalesce(g.id, l.id) AS subject, coalesce(-l.amount_nano, 0) AS found, coalesce(g.cost_nano, 0) AS expected
  FROM (SELECT id, cost_nano FROM generations WHERE cost_nano > 0) g
  FULL JOIN (
    SELECT split_part(cause, ':', 2) AS id, sum(amount_nano) AS amount_nano,
      min(coalesce(occurred_at, created_at)) AS created_at FROM ledger_entries
    WHERE kind IN ('charge', 'refund', 'excess')
      AND (cause LIKE 'generation:%' OR cause LIKE 'refund:%' OR cause LIKE 'excess:%')
    GROUP BY 1) l
  ON l.id = g.id
  WHERE g.id IS NOT NULL OR l.created_at >= ${oldestMonth}`)
export const WAIVERS = report(`
  SELECT id AS subject, coalesce(waiver, 'none') AS found,
    CASE WHEN waiver IS NULL THEN 'a charge, or a reason' ELSE waiver END AS expected
  FROM generations
  WHERE environment = 'live' AND kind IN ('chat', 'completion', 'embedding', 'messages', 'responses', 'generate_content') AND cost_nano = 0
    AND prompt_tokens + completion_tokens > 0`)
export const CANCELLED_CALLS = report(`
  SELECT id AS subject, coalesce(cost_nano, 0) > 0 AS found, true AS expected
  FROM jobs WHERE kind = 'async' AND environment = 'live' AND status = 'cancelled' AND stage = 'over' AND hold_nano > 0
    AND operation ? 'call'`)
// The `alerts` task runs every 15 s. The previous release raised an alert for each.
export const EXCESSES = report(`
  SELECT l.cause AS subject, true AS expected,
    a.id IS NOT NULL OR e.handled_at IS NOT NULL OR coalesce(e.booked_at > now() - interval '2 minutes', false) AS found
  FROM ledger_entries l LEFT JOIN excesses e USING (cause) LEFT JOIN alerts a USING (cause)
  WHERE l.cause LIKE 'excess:%' AND l.created_at > now() - interval '6 days'`)
export const OVERDRAFTS = report(`
  SELECT w.organisation_id AS subject, w.balance_nano::numeric AS found,
    greatest(w.balance_nano, -coalesce(sum(-l.amount_nano) FILTER (WHERE l.kind = 'excess'
      OR l.amount_nano < 0 AND l.kind IN ('deposit', 'adjustment')), 0)) AS expected
  FROM wallets w LEFT JOIN ledger_entries l USING (organisation_id)
  GROUP BY w.organisation_id, w.balance_nano`)
// A job's recorded cost equals its charges; a failed or expired job costs nothing.
export const JOBS = report(`
  SELECT j.id AS subject, coalesce(-sum(l.amount_nano), 0) AS found,
    CASE WHEN j.status IN ('failed', 'expired') THEN 0 ELSE coalesce(j.cost_nano, 0) END::numeric AS expected
  FROM jobs j LEFT JOIN ledger_entries l ON l.cause IN ('generation:' || j.id, 'refund:' || j.id, 'excess:' || j.id)
  GROUP BY j.id`)
export const TOP_UPS = report(`
  SELECT coalesce(t.id, l.id) AS subject, coalesce(l.amount_nano, 0) AS found,
    (CASE WHEN t.status IN ('processing', 'paid', 'refunded') THEN t.amount_nano ELSE 0 END - t.returned_nano)::numeric AS expected
  FROM top_ups t
  FULL JOIN (
    SELECT split_part(cause, ':', 2) AS id, sum(amount_nano) AS amount_nano FROM ledger_entries
    WHERE kind = 'deposit' AND cause LIKE 'stripe:%' GROUP BY 1) l
  ON l.id = t.id`)
export const ONCE = report(
  `SELECT id AS subject, count(*) AS found, 1::bigint AS expected FROM generations GROUP BY id`,
)

// A session is charged in the months in which it reserves, a line of a provider's batch in that of the batch.
export const MONTHS = report(`
  SELECT l.cause AS subject, coalesce(l.late_from, l.dated) AS found,
    CASE WHEN l.late_from >= l.dated THEN 'an earlier month than ' || l.dated ELSE l.month END AS expected
  FROM (SELECT *, to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM') AS dated FROM ledger_entries) l WHERE l.month IS NOT NULL
  UNION ALL
  SELECT l.cause || ' of a request', l.month, to_char(g.created_at AT TIME ZONE 'UTC', 'YYYY-MM')
  FROM ledger_entries l JOIN generations g ON g.id = split_part(l.cause, ':', 2)
  WHERE l.month IS NOT NULL AND g.kind <> 'realtime' AND NOT coalesce(g.routing ? 'batch', false)`)

// Daily usage is kept when a month of the request log is dropped.
export const DAYS = report(`
  SELECT organisation_id || ' ' || day AS subject, d.sums AS found, g.sums AS expected
  FROM (
    SELECT organisation_id, day, ROW(sum(requests), sum(errors), sum(cost_nano), sum(prompt_tokens + completion_tokens))::text AS sums
    FROM usage_days GROUP BY 1, 2
  ) d FULL JOIN (
    SELECT organisation_id, (created_at AT TIME ZONE 'UTC')::date AS day, ROW(sum(calls), coalesce(sum(calls) FILTER (WHERE status >= 400
      AND status <> 499), 0), sum(cost_nano), sum(prompt_tokens::bigint + completion_tokens))::text AS sums
    FROM generations GROUP BY 1, 2
  ) g USING (organisation_id, day)
  WHERE g.sums IS NOT NULL OR day::timestamp AT TIME ZONE 'UTC' >= ${oldestMonth}`)

export const LEDGER_DAYS = report(`
  SELECT organisation_id || ' ' || day || ' ' || kind AS subject, d.sums AS found, l.sums AS expected
  FROM (
    SELECT organisation_id, day, kind, key_id, ROW(entries, amount_nano::numeric)::text AS sums FROM ledger_days
  ) d FULL JOIN (
    SELECT organisation_id, (created_at AT TIME ZONE 'UTC')::date AS day, kind, coalesce(key_id, '') AS key_id,
      ROW(count(*), sum(amount_nano))::text AS sums
    FROM ledger_entries GROUP BY 1, 2, 3, 4
  ) l USING (organisation_id, day, kind, key_id)`)

// Hours are deleted with the months of the request log. Those that are empty belong to rows that moved to another hour or class.
export const HOURS = report(`
  SELECT organisation_id || ' ' || hour || ' ' || outcome AS subject, h.sums AS found, g.sums AS expected
  FROM (
    SELECT organisation_id, hour, outcome, ROW(sum(requests), sum(cost_nano), sum(prompt_tokens + completion_tokens),
      coalesce(sum(provider_cost_nano), 0), sum(cache_discount_nano))::text AS sums
    FROM usage_hours GROUP BY 1, 2, 3 HAVING sum(requests) <> 0
  ) h FULL JOIN (
    SELECT organisation_id, date_trunc('hour', created_at, 'UTC') AS hour, outcome_of(status) AS outcome,
      ROW(sum(calls), sum(cost_nano), sum(prompt_tokens::bigint + completion_tokens),
        coalesce(sum(provider_cost(cost_nano, margin_ppm)), 0), sum(coalesce(cache_discount_nano, 0)))::text AS sums
    FROM generations GROUP BY 1, 2, 3
  ) g USING (organisation_id, hour, outcome)
  WHERE g.sums IS NOT NULL OR hour >= ${oldestMonth}`)

// Like hours. A sketch has as many durations as there are requests.
export const DAY_DETAILS = report(`
  SELECT organisation_id || ' ' || day || ' ' || outcome AS subject, d.sums AS found, g.sums AS expected
  FROM (
    SELECT organisation_id, day, outcome, ROW(sum(requests), sum(cost_nano), sum(known_cost_nano), sum(provider_cost_nano),
      sum(prompt_tokens + completion_tokens), sum(cached_tokens + reasoning_tokens), sum(cache_discount_nano),
      sum(CASE WHEN outcome = 'ok' AND latency_sketch IS NOT NULL
        THEN requests - (SELECT coalesce(sum(calls), 0) FROM buckets_of(latency_sketch)) ELSE 0 END))::text AS sums
    FROM usage_day_details GROUP BY 1, 2, 3 HAVING sum(requests) <> 0
  ) d FULL JOIN (
    SELECT organisation_id, (created_at AT TIME ZONE 'UTC')::date AS day, outcome_of(status) AS outcome,
      ROW(sum(calls), sum(cost_nano), coalesce(sum(cost_nano) FILTER (WHERE provider_cost(cost_nano, margin_ppm) IS NOT NULL), 0),
        coalesce(sum(provider_cost(cost_nano, margin_ppm)), 0), sum(prompt_tokens::bigint + completion_tokens),
        sum(cached_tokens::bigint + reasoning_tokens), sum(coalesce(cache_discount_nano, 0)), 0)::text AS sums
    FROM generations GROUP BY 1, 2, 3
  ) g USING (organisation_id, day, outcome)
  WHERE g.sums IS NOT NULL OR day::timestamp AT TIME ZONE 'UTC' >= ${oldestMonth}`)

// Peaks stay where requests become smaller: jobs are refunded.
export const PEAKS = report(`
  SELECT organisation_id || ' ' || hour || ' ' || model AS subject, ROW(g.duration_ms, g.cost_nano, g.prompt_tokens, g.completion_tokens)::text AS found,
    CASE WHEN p.hour IS NULL THEN 'a row' ELSE ROW(least(g.duration_ms, p.duration_ms), least(g.cost_nano, p.cost_nano),
      least(g.prompt_tokens, p.prompt_tokens), least(g.completion_tokens, p.completion_tokens))::text END AS expected
  FROM (
    SELECT organisation_id, date_trunc('hour', created_at, 'UTC') AS hour, model, max(duration_ms) AS duration_ms,
      max(cost_nano) AS cost_nano, max(prompt_tokens) AS prompt_tokens, max(completion_tokens) AS completion_tokens
    FROM generations GROUP BY 1, 2, 3
  ) g LEFT JOIN usage_peaks p USING (organisation_id, hour, model)`)

// While a provider's batch runs, the counts come from the provider; after the end of a batch, its lines are in its files.
export const BATCH_LINES = report(`
  SELECT b.id AS subject, b.completed || ' + ' || b.failed AS found,
    CASE WHEN b.status = 'failed' THEN b.completed || ' + ' || b.failed
      WHEN b.status IN ('completed', 'expired', 'cancelled') THEN b.completed || ' + ' || (b.total - b.completed)
      ELSE count(l.line) FILTER (WHERE NOT l.failed) || ' + ' || count(l.line) FILTER (WHERE l.failed) END AS expected
  FROM batches b LEFT JOIN batch_lines l ON l.batch_id = b.id
  WHERE b.operation IS NULL OR b.operation ? 'here' OR b.status IN ('completed', 'expired', 'cancelled')
  GROUP BY b.id`)
// A journal line has its request id before any text from a client or a provider.
export const BATCH_COSTS = report(`
  SELECT b.id AS subject, b.cost_nano::numeric AS found, coalesce(sum(g.cost_nano), 0) AS expected
  FROM batches b
  LEFT JOIN batch_lines l ON l.batch_id = b.id
  LEFT JOIN generations g ON g.organisation_id = b.organisation_id
    AND g.request_id = substring(left(l.text, ${maxBeforeRequest}) FROM '"request_id":"(req_[0-9a-z]+)"')
  WHERE b.status IN ('validating', 'in_progress', 'finalizing', 'cancelling')
    AND NOT EXISTS (SELECT 1 FROM batch_parts p WHERE p.batch_id = b.id)
  GROUP BY b.id`)

export const STORAGE = report(`
  SELECT organisation_id || ' ' || environment AS subject, coalesce(u.files, 0) || ' files, ' || coalesce(u.bytes, 0) AS found,
    coalesce(s.files, 0) || ' files, ' || coalesce(s.bytes, 0) AS expected
  FROM storage_usage u FULL JOIN (
    SELECT organisation_id, environment, sum(files) AS files, sum(bytes) AS bytes FROM (
      SELECT organisation_id, environment, 1 AS files, bytes FROM files
      UNION ALL
      SELECT organisation_id, (CASE WHEN key LIKE 'test:%' THEN 'test' ELSE 'live' END)::environment, 0, octet_length(body)
      FROM idempotency_keys WHERE body IS NOT NULL
      UNION ALL
      SELECT organisation_id, environment, 0, coalesce(octet_length(head), 0) + coalesce(octet_length(items), 0)
      FROM stored_responses
      UNION ALL
      SELECT organisation_id, environment, 0, coalesce(octet_length(item), 0) FROM conversation_items) stored
    GROUP BY 1, 2) s USING (organisation_id, environment)`)
