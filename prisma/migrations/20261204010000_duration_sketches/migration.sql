-- Bookings wait until the sketches have what was booked before. Taken first, as bookings take it before the sums.
LOCK TABLE "generations" IN SHARE ROW EXCLUSIVE MODE;

-- AlterTable: sketches of the durations of successes, and of the time to the first token of those that were streamed.
ALTER TABLE "usage_hours" ADD COLUMN "latency_sketch" BIGINT[] NOT NULL DEFAULT '{}',
ADD COLUMN "first_token_sketch" BIGINT[] NOT NULL DEFAULT '{}';
ALTER TABLE "usage_day_details" ADD COLUMN "latency_sketch" BIGINT[] NOT NULL DEFAULT '{}',
ADD COLUMN "first_token_sketch" BIGINT[] NOT NULL DEFAULT '{}';

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

-- The sketch of durations that are added (1) or removed (-1). Both may be null.
CREATE FUNCTION "sketch_of"(durations INTEGER[], signs INTEGER[]) RETURNS BIGINT[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF durations IS NULL THEN
    RETURN '{}';
  END IF;
  RETURN (
    SELECT coalesce(array_agg(bucket) || array_agg(calls) || array_agg(total), '{}')
    FROM (
      SELECT bucket_ms(ms)::bigint AS bucket, sum(sign) AS calls, sum(sign * ms::bigint)::bigint AS total
      FROM unnest(durations, signs) added(ms, sign) WHERE ms IS NOT NULL
      GROUP BY 1 HAVING sum(sign) <> 0 OR sum(sign * ms::bigint) <> 0 ORDER BY 1
    ) buckets);
END $$;

CREATE FUNCTION "add_sketches"(a BIGINT[], b BIGINT[]) RETURNS BIGINT[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF b = '{}' THEN
    RETURN a;
  END IF;
  RETURN (
    SELECT coalesce(array_agg(bucket) || array_agg(calls) || array_agg(total), '{}')
    FROM (
      SELECT one.bucket_ms AS bucket, sum(one.calls)::bigint AS calls, sum(one.total_ms)::bigint AS total
      FROM (SELECT * FROM buckets_of(a) UNION ALL SELECT * FROM buckets_of(b)) one
      GROUP BY 1 HAVING sum(one.calls) <> 0 OR sum(one.total_ms) <> 0 ORDER BY 1
    ) buckets);
END $$;

-- As before, with sketches instead of the histograms, which keep what they had.
CREATE OR REPLACE FUNCTION "count_usage"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  changed TEXT := '(SELECT 1 AS one, * FROM added'
    || CASE TG_OP WHEN 'UPDATE' THEN ' UNION ALL SELECT -1, * FROM removed' ELSE '' END || ') changed';
  durations TEXT := 'sketch_of(array_agg(duration_ms) FILTER (WHERE status < 400), array_agg(one) FILTER (WHERE status < 400)),
      sketch_of(array_agg(first_byte_ms) FILTER (WHERE status < 400 AND streamed), array_agg(one) FILTER (WHERE status < 400 AND streamed))';
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
      sum(one * provider_cost(cost_nano, margin_ppm)), sum(one * coalesce(cache_discount_nano, 0)), ' || durations || '
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
      latency_sketch = add_sketches(h.latency_sketch, excluded.latency_sketch),
      first_token_sketch = add_sketches(h.first_token_sketch, excluded.first_token_sketch)';
  RETURN NULL;
END $$;

-- As before, with sketches.
CREATE OR REPLACE FUNCTION "count_usage_day"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  durations TEXT := 'sketch_of(array_agg(duration_ms) FILTER (WHERE status < 400), array_agg(one) FILTER (WHERE status < 400)),
      sketch_of(array_agg(first_byte_ms) FILTER (WHERE status < 400 AND streamed), array_agg(one) FILTER (WHERE status < 400 AND streamed))';
BEGIN
  EXECUTE '
    INSERT INTO usage_day_details AS d
    SELECT organisation_id, (created_at AT TIME ZONE ''UTC'')::date, key_id, model, coalesce(provider, ''''), kind, environment,
      outcome_of(status), sum(one * calls), sum(one * cost_nano),
      sum(CASE WHEN provider_cost(cost_nano, margin_ppm) IS NOT NULL THEN one * cost_nano ELSE 0 END),
      coalesce(sum(one * provider_cost(cost_nano, margin_ppm)), 0), sum(one * prompt_tokens::bigint),
      sum(one * completion_tokens::bigint), sum(one * cached_tokens::bigint), sum(one * reasoning_tokens::bigint),
      ''{}''::bigint[], ''{}''::bigint[], sum(one * coalesce(cache_discount_nano, 0)), ' || durations || '
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
      latency_sketch = add_sketches(d.latency_sketch, excluded.latency_sketch),
      first_token_sketch = add_sketches(d.first_token_sketch, excluded.first_token_sketch)';
  RETURN NULL;
END $$;

-- What was logged before.
UPDATE "usage_hours" h SET latency_sketch = g.latency, first_token_sketch = g.first_token
FROM (
  SELECT organisation_id, date_trunc('hour', created_at, 'UTC') AS hour, key_id, model, coalesce(provider, '') AS provider, kind,
    environment, outcome_of(status) AS outcome, sketch_of(array_agg(duration_ms), array_agg(1)) AS latency,
    sketch_of(array_agg(first_byte_ms) FILTER (WHERE streamed), array_agg(1) FILTER (WHERE streamed)) AS first_token
  FROM "generations" WHERE status < 400 GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
) g
WHERE (h.organisation_id, h.hour, h.key_id, h.model, h.provider, h.kind, h.environment, h.outcome)
  = (g.organisation_id, g.hour, g.key_id, g.model, g.provider, g.kind, g.environment, g.outcome);
UPDATE "usage_day_details" d SET latency_sketch = g.latency, first_token_sketch = g.first_token
FROM (
  SELECT organisation_id, (created_at AT TIME ZONE 'UTC')::date AS day, key_id, model, coalesce(provider, '') AS provider, kind,
    environment, outcome_of(status) AS outcome, sketch_of(array_agg(duration_ms), array_agg(1)) AS latency,
    sketch_of(array_agg(first_byte_ms) FILTER (WHERE streamed), array_agg(1) FILTER (WHERE streamed)) AS first_token
  FROM "generations" WHERE status < 400 GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
) g
WHERE (d.organisation_id, d.day, d.key_id, d.model, d.provider, d.kind, d.environment, d.outcome)
  = (g.organisation_id, g.day, g.key_id, g.model, g.provider, g.kind, g.environment, g.outcome);
