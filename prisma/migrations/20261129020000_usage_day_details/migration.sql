-- CreateTable: what usage_hours has, by day. Long times are summed from an eighth of the rows.
CREATE TABLE "usage_day_details" (
    "organisation_id" TEXT NOT NULL,
    "day" DATE NOT NULL,
    "key_id" TEXT NOT NULL,
    "model" TEXT NOT NULL,
    "provider" TEXT NOT NULL,
    "kind" TEXT NOT NULL,
    "environment" "environment" NOT NULL,
    "outcome" TEXT NOT NULL,
    "requests" BIGINT NOT NULL,
    "cost_nano" BIGINT NOT NULL,
    "known_cost_nano" BIGINT NOT NULL,
    "provider_cost_nano" BIGINT NOT NULL,
    "prompt_tokens" BIGINT NOT NULL,
    "completion_tokens" BIGINT NOT NULL,
    "cached_tokens" BIGINT NOT NULL,
    "reasoning_tokens" BIGINT NOT NULL,
    "latency" BIGINT[] NOT NULL,
    "first_byte" BIGINT[] NOT NULL,

    CONSTRAINT "usage_day_details_pkey" PRIMARY KEY ("organisation_id","day","key_id","model","provider","kind","environment","outcome")
);

-- Old days are deleted, and those of all organisations are read, by time alone; rows arrive in about that order.
CREATE INDEX "usage_day_details_day_idx" ON "usage_day_details" USING BRIN ("day");

-- Like count_usage, whose rows are taken before, in one order: two transactions never wait in a circle for them.
CREATE FUNCTION "count_usage_day"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE '
    INSERT INTO usage_day_details AS d
    SELECT organisation_id, (created_at AT TIME ZONE ''UTC'')::date, key_id, model, coalesce(provider, ''''), kind, environment,
      outcome_of(status), sum(one * calls), sum(one * cost_nano),
      sum(CASE WHEN provider_cost(cost_nano, margin_ppm) IS NOT NULL THEN one * cost_nano ELSE 0 END),
      coalesce(sum(one * provider_cost(cost_nano, margin_ppm)), 0), sum(one * prompt_tokens::bigint),
      sum(one * completion_tokens::bigint), sum(one * cached_tokens::bigint), sum(one * reasoning_tokens::bigint),
      histogram(CASE WHEN status < 400 THEN duration_bucket(duration_ms) END, one),
      histogram(CASE WHEN status < 400 THEN duration_bucket(first_byte_ms) END, one)
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
      latency = add_counts(d.latency, excluded.latency), first_byte = add_counts(d.first_byte, excluded.first_byte)';
  RETURN NULL;
END $$;

-- The lock that CreateTrigger takes makes bookings wait until the days have what was booked before.
CREATE TRIGGER "count_day_added" AFTER INSERT ON "generations" REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION "count_usage_day"();
CREATE TRIGGER "count_day_changed" AFTER UPDATE ON "generations" REFERENCING OLD TABLE AS removed NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION "count_usage_day"();

-- From the hours, which are far fewer than requests. The aggregate goes with the connection.
CREATE AGGREGATE pg_temp."sum_counts"(BIGINT[]) (
  SFUNC = "add_counts", STYPE = BIGINT[], INITCOND = '{0,0,0,0,0,0,0,0,0,0,0,0,0}'
);
INSERT INTO "usage_day_details"
SELECT organisation_id, (hour AT TIME ZONE 'UTC')::date, key_id, model, provider, kind, environment, outcome, sum(requests), sum(cost_nano),
  coalesce(sum(cost_nano) FILTER (WHERE provider_cost_nano IS NOT NULL), 0), coalesce(sum(provider_cost_nano), 0), sum(prompt_tokens),
  sum(completion_tokens), sum(cached_tokens), sum(reasoning_tokens), pg_temp.sum_counts(latency), pg_temp.sum_counts(first_byte)
FROM "usage_hours" GROUP BY 1, 2, 3, 4, 5, 6, 7, 8;
