-- AlterTable: sketches of the durations of successes, and of the time to the first token of those that were streamed. Null until
-- the log has been summed up (shared/wallet/sketches.ts): bookings do no work for them.
ALTER TABLE "usage_hours" ADD COLUMN "latency_sketch" BIGINT[],
ADD COLUMN "first_token_sketch" BIGINT[];
ALTER TABLE "usage_day_details" ADD COLUMN "latency_sketch" BIGINT[],
ADD COLUMN "first_token_sketch" BIGINT[];

-- CreateTable: the same of all requests of an organisation and environment, by hour (1) and UTC day (24).
CREATE TABLE "duration_sketches" (
    "organisation_id" TEXT NOT NULL,
    "hours" INTEGER NOT NULL,
    "starts_at" TIMESTAMPTZ(0) NOT NULL,
    "environment" "environment" NOT NULL,
    "latency_sketch" BIGINT[] NOT NULL,
    "first_token_sketch" BIGINT[] NOT NULL,

    CONSTRAINT "duration_sketches_pkey" PRIMARY KEY ("organisation_id","hours","starts_at","environment")
);

-- Old ones are deleted by time alone.
CREATE INDEX "duration_sketches_starts_at_idx" ON "duration_sketches" USING BRIN ("starts_at");

-- What remains to be summed up.
CREATE INDEX "usage_hours_open_idx" ON "usage_hours"("hour") WHERE latency_sketch IS NULL AND outcome = 'ok';
CREATE INDEX "usage_day_details_open_idx" ON "usage_day_details"("day") WHERE latency_sketch IS NULL AND outcome = 'ok';

-- The lower bound of a duration's bucket. Up to 100 ms a bucket is one millisecond, then 2, from 200 ms on 4, from 400 ms on 8 …: at
-- most 2 % of the duration.
CREATE FUNCTION "bucket_ms"(ms INTEGER) RETURNS INTEGER LANGUAGE sql IMMUTABLE AS $$
  SELECT ms - ms % (1 << width_bucket(ms, ARRAY[100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 102400, 204800, 409600,
    819200, 1638400, 3276800, 6553600, 13107200, 26214400, 52428800, 104857600, 209715200, 419430400, 838860800, 1677721600]))
$$;

-- A sketch has the buckets that are not empty: all their lower bounds, then the number of durations in each, then the sum of these.
CREATE FUNCTION "buckets_of"(sketch BIGINT[]) RETURNS TABLE("bucket_ms" BIGINT, "calls" BIGINT, "total_ms" BIGINT)
LANGUAGE sql IMMUTABLE AS $$
  SELECT * FROM unnest(sketch[:cardinality(sketch) / 3],
    sketch[cardinality(sketch) / 3 + 1:2 * cardinality(sketch) / 3], sketch[2 * cardinality(sketch) / 3 + 1:])
$$;

CREATE FUNCTION "sketch_of"(durations INTEGER[]) RETURNS BIGINT[] LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(array_agg(bucket) || array_agg(calls) || array_agg(total), '{}')
  FROM (
    SELECT bucket_ms(ms)::bigint AS bucket, count(*) AS calls, sum(ms)::bigint AS total
    FROM unnest(durations) ms WHERE ms IS NOT NULL GROUP BY 1 ORDER BY 1
  ) buckets
$$;

-- As before, without the histograms; the sketches of an hour that changes are no longer valid.
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
      ''{}''::bigint[], ''{}''::bigint[],
      sum(one * provider_cost(cost_nano, margin_ppm)), sum(one * coalesce(cache_discount_nano, 0))
    FROM ' || changed || '
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
    ON CONFLICT (organisation_id, hour, key_id, model, provider, kind, environment, outcome) DO UPDATE SET
      requests = h.requests + excluded.requests, cost_nano = h.cost_nano + excluded.cost_nano,
      prompt_tokens = h.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = h.completion_tokens + excluded.completion_tokens,
      cached_tokens = h.cached_tokens + excluded.cached_tokens,
      reasoning_tokens = h.reasoning_tokens + excluded.reasoning_tokens,
      provider_cost_nano = coalesce(h.provider_cost_nano + excluded.provider_cost_nano, h.provider_cost_nano,
        excluded.provider_cost_nano),
      cache_discount_nano = h.cache_discount_nano + excluded.cache_discount_nano,
      latency_sketch = NULL, first_token_sketch = NULL';
  RETURN NULL;
END $$;

-- As before, without the histograms; the sketches of a day that changes are no longer valid.
CREATE OR REPLACE FUNCTION "count_usage_day"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE '
    INSERT INTO usage_day_details AS d
    SELECT organisation_id, (created_at AT TIME ZONE ''UTC'')::date, key_id, model, coalesce(provider, ''''), kind, environment,
      outcome_of(status), sum(one * calls), sum(one * cost_nano),
      sum(CASE WHEN provider_cost(cost_nano, margin_ppm) IS NOT NULL THEN one * cost_nano ELSE 0 END),
      coalesce(sum(one * provider_cost(cost_nano, margin_ppm)), 0), sum(one * prompt_tokens::bigint),
      sum(one * completion_tokens::bigint), sum(one * cached_tokens::bigint), sum(one * reasoning_tokens::bigint),
      ''{}''::bigint[], ''{}''::bigint[], sum(one * coalesce(cache_discount_nano, 0))
    FROM (SELECT 1 AS one, * FROM added' || CASE TG_OP WHEN 'UPDATE' THEN ' UNION ALL SELECT -1, * FROM removed' ELSE '' END || ') changed
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
    ON CONFLICT (organisation_id, day, key_id, model, provider, kind, environment, outcome) DO UPDATE SET
      requests = d.requests + excluded.requests, cost_nano = d.cost_nano + excluded.cost_nano,
      known_cost_nano = d.known_cost_nano + excluded.known_cost_nano,
      provider_cost_nano = d.provider_cost_nano + excluded.provider_cost_nano,
      prompt_tokens = d.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = d.completion_tokens + excluded.completion_tokens,
      cached_tokens = d.cached_tokens + excluded.cached_tokens,
      reasoning_tokens = d.reasoning_tokens + excluded.reasoning_tokens,
      cache_discount_nano = d.cache_discount_nano + excluded.cache_discount_nano,
      latency_sketch = NULL, first_token_sketch = NULL';
  RETURN NULL;
END $$;
