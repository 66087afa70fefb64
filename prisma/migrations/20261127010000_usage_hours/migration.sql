-- AlterTable: a row of refused calls stands for several of them.
ALTER TABLE "generations" ADD COLUMN "calls" INTEGER NOT NULL DEFAULT 1;

-- CreateTable
CREATE TABLE "usage_hours" (
    "organisation_id" TEXT NOT NULL,
    "hour" TIMESTAMPTZ(0) NOT NULL,
    "key_id" TEXT NOT NULL,
    "model" TEXT NOT NULL,
    "provider" TEXT NOT NULL,
    "kind" TEXT NOT NULL,
    "environment" "environment" NOT NULL,
    "outcome" TEXT NOT NULL,
    "requests" BIGINT NOT NULL,
    "cost_nano" BIGINT NOT NULL,
    "prompt_tokens" BIGINT NOT NULL,
    "completion_tokens" BIGINT NOT NULL,
    "cached_tokens" BIGINT NOT NULL,
    "reasoning_tokens" BIGINT NOT NULL,
    "latency" BIGINT[] NOT NULL,
    "first_byte" BIGINT[] NOT NULL,

    CONSTRAINT "usage_hours_pkey" PRIMARY KEY ("organisation_id","hour","key_id","model","provider","kind","environment","outcome")
);

-- Old hours are deleted by time alone; rows arrive in about that order.
CREATE INDEX "usage_hours_hour_idx" ON "usage_hours" USING BRIN ("hour");

-- The class of a response by its status: shared/wallet/usage-hours.ts.
CREATE FUNCTION "outcome_of"(status INTEGER) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN status < 400 THEN 'ok' WHEN status = 499 THEN 'cancelled' WHEN status = 429 THEN 'rate_limited'
    WHEN status IN (401, 402, 403) THEN 'refused' WHEN status < 500 THEN 'invalid' ELSE 'failed' END
$$;

-- The bucket of a duration, from 1: shared/wallet/usage-hours.ts has the same bounds.
CREATE FUNCTION "duration_bucket"(ms INTEGER) RETURNS INTEGER LANGUAGE sql IMMUTABLE AS $$
  SELECT width_bucket(ms, ARRAY[50, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 102400]) + 1
$$;

CREATE FUNCTION "add_to_bucket"(counts BIGINT[], bucket INTEGER, added BIGINT) RETURNS BIGINT[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF bucket IS NOT NULL THEN
    counts[bucket] := counts[bucket] + added;
  END IF;
  RETURN counts;
END $$;

CREATE AGGREGATE "histogram"(INTEGER, BIGINT) (
  SFUNC = "add_to_bucket", STYPE = BIGINT[], INITCOND = '{0,0,0,0,0,0,0,0,0,0,0,0,0}'
);

CREATE FUNCTION "add_counts"(a BIGINT[], b BIGINT[]) RETURNS BIGINT[] LANGUAGE sql IMMUTABLE AS $$
  SELECT ARRAY(SELECT x + y FROM unnest(a, b) WITH ORDINALITY AS pair(x, y, i) ORDER BY i)
$$;

-- As before, with the number of calls that a row stands for, and the sums of the hour. Durations are those of successes.
CREATE OR REPLACE FUNCTION "count_usage"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  changed TEXT := '(SELECT 1 AS one, * FROM added'
    || CASE TG_OP WHEN 'UPDATE' THEN ' UNION ALL SELECT -1, * FROM removed' ELSE '' END || ') changed';
BEGIN
  EXECUTE '
    INSERT INTO usage_days AS d
    SELECT organisation_id, (created_at AT TIME ZONE ''UTC'')::date, key_id, model, kind, environment, sum(one * calls),
      sum(CASE WHEN status >= 400 AND status <> 499 THEN one * calls ELSE 0 END), sum(one * cost_nano),
      sum(one * prompt_tokens::bigint), sum(one * completion_tokens::bigint), sum(one * cached_tokens::bigint)
    FROM ' || changed || '
    GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6
    ON CONFLICT (organisation_id, day, key_id, model, kind, environment) DO UPDATE SET
      requests = d.requests + excluded.requests, errors = d.errors + excluded.errors, cost_nano = d.cost_nano + excluded.cost_nano,
      prompt_tokens = d.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = d.completion_tokens + excluded.completion_tokens,
      cached_tokens = d.cached_tokens + excluded.cached_tokens';
  EXECUTE '
    INSERT INTO usage_hours AS h
    SELECT organisation_id, date_trunc(''hour'', created_at, ''UTC''), key_id, model, coalesce(provider, ''''), kind, environment,
      outcome_of(status), sum(one * calls), sum(one * cost_nano), sum(one * prompt_tokens::bigint),
      sum(one * completion_tokens::bigint), sum(one * cached_tokens::bigint), sum(one * reasoning_tokens::bigint),
      histogram(CASE WHEN status < 400 THEN duration_bucket(duration_ms) END, one),
      histogram(CASE WHEN status < 400 THEN duration_bucket(first_byte_ms) END, one)
    FROM ' || changed || '
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
    ON CONFLICT (organisation_id, hour, key_id, model, provider, kind, environment, outcome) DO UPDATE SET
      requests = h.requests + excluded.requests, cost_nano = h.cost_nano + excluded.cost_nano,
      prompt_tokens = h.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = h.completion_tokens + excluded.completion_tokens,
      cached_tokens = h.cached_tokens + excluded.cached_tokens,
      reasoning_tokens = h.reasoning_tokens + excluded.reasoning_tokens,
      latency = add_counts(h.latency, excluded.latency), first_byte = add_counts(h.first_byte, excluded.first_byte)';
  RETURN NULL;
END $$;

INSERT INTO "usage_hours"
SELECT organisation_id, date_trunc('hour', created_at, 'UTC'), key_id, model, coalesce(provider, ''), kind, environment,
  outcome_of(status), count(*), sum(cost_nano), sum(prompt_tokens), sum(completion_tokens), sum(cached_tokens), sum(reasoning_tokens),
  histogram(CASE WHEN status < 400 THEN duration_bucket(duration_ms) END, 1),
  histogram(CASE WHEN status < 400 THEN duration_bucket(first_byte_ms) END, 1)
FROM "generations" GROUP BY 1, 2, 3, 4, 5, 6, 7, 8;
