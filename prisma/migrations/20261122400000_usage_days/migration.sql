-- CreateTable
CREATE TABLE "usage_days" (
    "organisation_id" TEXT NOT NULL,
    "day" DATE NOT NULL,
    "key_id" TEXT NOT NULL,
    "model" TEXT NOT NULL,
    "kind" TEXT NOT NULL,
    "environment" "environment" NOT NULL,
    "requests" BIGINT NOT NULL,
    "errors" BIGINT NOT NULL,
    "cost_nano" BIGINT NOT NULL,
    "prompt_tokens" BIGINT NOT NULL,
    "completion_tokens" BIGINT NOT NULL,

    CONSTRAINT "usage_days_pkey" PRIMARY KEY ("organisation_id","day","key_id","model","kind","environment")
);

-- Whatever is written into the request log is counted in the same transaction, so that no writer can forget it, what is
-- dropped with an old month stays counted. Rows are taken in one order: two transactions never wait in a circle for them.
CREATE FUNCTION "count_usage"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE '
    INSERT INTO usage_days AS d
    SELECT organisation_id, (created_at AT TIME ZONE ''UTC'')::date, key_id, model, kind, environment, sum(one),
      sum(CASE WHEN status >= 400 AND status <> 499 THEN one ELSE 0 END), sum(one * cost_nano), sum(one * prompt_tokens::bigint),
      sum(one * completion_tokens::bigint)
    FROM (SELECT 1 AS one, * FROM added' || CASE TG_OP WHEN 'UPDATE' THEN ' UNION ALL SELECT -1, * FROM removed' ELSE '' END || ') changed
    GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6
    ON CONFLICT (organisation_id, day, key_id, model, kind, environment) DO UPDATE SET
      requests = d.requests + excluded.requests, errors = d.errors + excluded.errors, cost_nano = d.cost_nano + excluded.cost_nano,
      prompt_tokens = d.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = d.completion_tokens + excluded.completion_tokens';
  RETURN NULL;
END $$;

CREATE TRIGGER "count_added" AFTER INSERT ON "generations" REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION "count_usage"();
CREATE TRIGGER "count_changed" AFTER UPDATE ON "generations" REFERENCING OLD TABLE AS removed NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION "count_usage"();

INSERT INTO "usage_days"
SELECT organisation_id, (created_at AT TIME ZONE 'UTC')::date, key_id, model, kind, environment, count(*),
  count(*) FILTER (WHERE status >= 400 AND status <> 499), sum(cost_nano), sum(prompt_tokens), sum(completion_tokens)
FROM "generations" GROUP BY 1, 2, 3, 4, 5, 6;
