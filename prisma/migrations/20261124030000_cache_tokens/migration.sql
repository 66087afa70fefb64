-- AlterTable
ALTER TABLE "generations" ADD COLUMN "cache_write_tokens" INTEGER,
ADD COLUMN "cache_write1h_tokens" INTEGER;

-- AlterTable
ALTER TABLE "usage_days" ADD COLUMN "cached_tokens" BIGINT NOT NULL DEFAULT 0;

-- As before, with the cached tokens.
CREATE OR REPLACE FUNCTION "count_usage"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE '
    INSERT INTO usage_days AS d
    SELECT organisation_id, (created_at AT TIME ZONE ''UTC'')::date, key_id, model, kind, environment, sum(one),
      sum(CASE WHEN status >= 400 AND status <> 499 THEN one ELSE 0 END), sum(one * cost_nano), sum(one * prompt_tokens::bigint),
      sum(one * completion_tokens::bigint), sum(one * cached_tokens::bigint)
    FROM (SELECT 1 AS one, * FROM added' || CASE TG_OP WHEN 'UPDATE' THEN ' UNION ALL SELECT -1, * FROM removed' ELSE '' END || ') changed
    GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6
    ON CONFLICT (organisation_id, day, key_id, model, kind, environment) DO UPDATE SET
      requests = d.requests + excluded.requests, errors = d.errors + excluded.errors, cost_nano = d.cost_nano + excluded.cost_nano,
      prompt_tokens = d.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = d.completion_tokens + excluded.completion_tokens,
      cached_tokens = d.cached_tokens + excluded.cached_tokens';
  RETURN NULL;
END $$;

UPDATE "usage_days" d SET "cached_tokens" = g.cached_tokens
FROM (
  SELECT organisation_id, (created_at AT TIME ZONE 'UTC')::date AS day, key_id, model, kind, environment, sum(cached_tokens) AS cached_tokens
  FROM "generations" GROUP BY 1, 2, 3, 4, 5, 6
) g
WHERE (d.organisation_id, d.day, d.key_id, d.model, d.kind, d.environment)
  = (g.organisation_id, g.day, g.key_id, g.model, g.kind, g.environment) AND g.cached_tokens > 0;
