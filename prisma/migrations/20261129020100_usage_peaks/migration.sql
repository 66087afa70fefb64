-- CreateTable: no request of the hour to the model took longer, cost more or had more tokens. Rows that shrink later leave it as it is.
CREATE TABLE "usage_peaks" (
    "organisation_id" TEXT NOT NULL,
    "hour" TIMESTAMPTZ(0) NOT NULL,
    "model" TEXT NOT NULL,
    "duration_ms" INTEGER NOT NULL,
    "cost_nano" BIGINT NOT NULL,
    "prompt_tokens" INTEGER NOT NULL,
    "completion_tokens" INTEGER NOT NULL,

    CONSTRAINT "usage_peaks_pkey" PRIMARY KEY ("organisation_id","hour","model")
);

-- Old hours are deleted by time alone; rows arrive in about that order.
CREATE INDEX "usage_peaks_hour_idx" ON "usage_peaks" USING BRIN ("hour");

-- Most statements have no new peak, and write nothing. Rows are taken in one order: two transactions never wait in a circle for them.
CREATE FUNCTION "note_peaks"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO usage_peaks AS p
  SELECT organisation_id, date_trunc('hour', created_at, 'UTC'), model, max(duration_ms), max(cost_nano), max(prompt_tokens),
  max(completion_tokens)
  FROM added GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
  ON CONFLICT (organisation_id, hour, model) DO UPDATE SET
    duration_ms = greatest(p.duration_ms, excluded.duration_ms), cost_nano = greatest(p.cost_nano, excluded.cost_nano),
    prompt_tokens = greatest(p.prompt_tokens, excluded.prompt_tokens),
    completion_tokens = greatest(p.completion_tokens, excluded.completion_tokens)
  WHERE excluded.duration_ms > p.duration_ms OR excluded.cost_nano > p.cost_nano OR excluded.prompt_tokens > p.prompt_tokens
    OR excluded.completion_tokens > p.completion_tokens;
  RETURN NULL;
END $$;

-- The lock that CreateTrigger takes makes bookings wait until the hours have the peaks of what was booked before.
CREATE TRIGGER "peaks_added" AFTER INSERT ON "generations" REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION "note_peaks"();
CREATE TRIGGER "peaks_changed" AFTER UPDATE ON "generations" REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION "note_peaks"();

INSERT INTO "usage_peaks"
SELECT organisation_id, date_trunc('hour', created_at, 'UTC'), model, max(duration_ms), max(cost_nano), max(prompt_tokens),
  max(completion_tokens)
FROM "generations" GROUP BY 1, 2, 3;

-- The lines of a batch among all requests.
CREATE INDEX "generations_batch_idx" ON "generations"("organisation_id", ("routing" #> ARRAY['batch']), "created_at")
WHERE ("routing" #> ARRAY['batch']) IS NOT NULL;
