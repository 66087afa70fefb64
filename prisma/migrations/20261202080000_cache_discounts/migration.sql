-- AlterTable: what the providers' caches saved of what was charged.
ALTER TABLE "generations" ADD COLUMN "cache_discount_nano" BIGINT;
ALTER TABLE "usage_hours" ADD COLUMN "cache_discount_nano" BIGINT NOT NULL DEFAULT 0;
ALTER TABLE "usage_day_details" ADD COLUMN "cache_discount_nano" BIGINT NOT NULL DEFAULT 0;

-- As before, with what caches saved in the hour.
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
      histogram(CASE WHEN status < 400 THEN duration_bucket(first_byte_ms) END, one),
      sum(one * provider_cost(cost_nano, margin_ppm)), sum(one * coalesce(cache_discount_nano, 0))
    FROM ' || changed || '
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
    ON CONFLICT (organisation_id, hour, key_id, model, provider, kind, environment, outcome) DO UPDATE SET
      requests = h.requests + excluded.requests, cost_nano = h.cost_nano + excluded.cost_nano,
      prompt_tokens = h.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = h.completion_tokens + excluded.completion_tokens,
      cached_tokens = h.cached_tokens + excluded.cached_tokens,
      reasoning_tokens = h.reasoning_tokens + excluded.reasoning_tokens,
      latency = add_counts(h.latency, excluded.latency), first_byte = add_counts(h.first_byte, excluded.first_byte),
      provider_cost_nano = coalesce(h.provider_cost_nano + excluded.provider_cost_nano, h.provider_cost_nano,
        excluded.provider_cost_nano),
      cache_discount_nano = h.cache_discount_nano + excluded.cache_discount_nano';
  RETURN NULL;
END $$;

-- As before, with what caches saved on the day.
CREATE OR REPLACE FUNCTION "count_usage_day"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE '
    INSERT INTO usage_day_details AS d
    SELECT organisation_id, (created_at AT TIME ZONE ''UTC'')::date, key_id, model, coalesce(provider, ''''), kind, environment,
      outcome_of(status), sum(one * calls), sum(one * cost_nano),
      sum(CASE WHEN provider_cost(cost_nano, margin_ppm) IS NOT NULL THEN one * cost_nano ELSE 0 END),
      coalesce(sum(one * provider_cost(cost_nano, margin_ppm)), 0), sum(one * prompt_tokens::bigint),
      sum(one * completion_tokens::bigint), sum(one * cached_tokens::bigint), sum(one * reasoning_tokens::bigint),
      histogram(CASE WHEN status < 400 THEN duration_bucket(duration_ms) END, one),
      histogram(CASE WHEN status < 400 THEN duration_bucket(first_byte_ms) END, one), sum(one * coalesce(cache_discount_nano, 0))
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
      latency = add_counts(d.latency, excluded.latency), first_byte = add_counts(d.first_byte, excluded.first_byte),
      cache_discount_nano = d.cache_discount_nano + excluded.cache_discount_nano';
  RETURN NULL;
END $$;
