-- AlterTable
ALTER TABLE "jobs" ADD COLUMN "open_starts" INTEGER NOT NULL DEFAULT 0;

-- AlterTable
ALTER TABLE "webhook_deliveries" ADD COLUMN "open_starts" INTEGER NOT NULL DEFAULT 0;

-- AlterTable
ALTER TABLE "batches" ADD COLUMN "open_starts" INTEGER NOT NULL DEFAULT 0,
ADD COLUMN "started_line" INTEGER NOT NULL DEFAULT 0;

-- AlterTable
ALTER TABLE "idempotency_keys" ADD COLUMN "storage_key" TEXT;

-- CreateTable
CREATE TABLE "batch_starts" (
    "batch_id" TEXT NOT NULL,
    "line" INTEGER NOT NULL,
    "open_starts" INTEGER NOT NULL,

    CONSTRAINT "batch_starts_pkey" PRIMARY KEY ("batch_id","line")
);

-- AddForeignKey
ALTER TABLE "batch_starts" ADD CONSTRAINT "batch_starts_batch_id_fkey" FOREIGN KEY ("batch_id") REFERENCES "batches"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- Delayed jobs that can be run now, by organisation: a claim goes from one organisation to the next without reading the jobs
-- between. Those that pause are in an index of their own, by the end of their pause.
-- CreateIndex
CREATE INDEX "jobs_delayed_ready_idx" ON "jobs"("organisation_id", "environment", "deadline_at", "id")
WHERE "kind" = 'async' AND "stage" = 'waiting' AND "claimed_until" IS NULL;

-- CreateIndex
CREATE INDEX "jobs_delayed_pausing_idx" ON "jobs"("claimed_until")
WHERE "kind" = 'async' AND "stage" = 'waiting' AND "claimed_until" IS NOT NULL;

-- CreateTable
CREATE TABLE "storage_usage" (
    "organisation_id" TEXT NOT NULL,
    "environment" "environment" NOT NULL,
    "files" BIGINT NOT NULL,
    "bytes" BIGINT NOT NULL,

    CONSTRAINT "storage_usage_pkey" PRIMARY KEY ("organisation_id","environment")
);

-- Every stored file is counted in the transaction that writes, resizes or deletes its row, and so is every kept answer that
-- lies in the database. Rows are taken in one order: two transactions never wait in a circle for them.
CREATE FUNCTION "count_files"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE '
    INSERT INTO storage_usage AS u
    SELECT organisation_id, environment, sum(one), sum(one * bytes) FROM (' ||
    CASE TG_OP
      WHEN 'INSERT' THEN 'SELECT 1 AS one, * FROM added'
      WHEN 'DELETE' THEN 'SELECT -1 AS one, * FROM removed'
      ELSE 'SELECT 1 AS one, * FROM added UNION ALL SELECT -1, * FROM removed'
    END || ') changed
    GROUP BY 1, 2 HAVING sum(one) <> 0 OR sum(one * bytes) <> 0 ORDER BY 1, 2
    ON CONFLICT (organisation_id, environment) DO UPDATE SET files = u.files + excluded.files, bytes = u.bytes + excluded.bytes';
  RETURN NULL;
END $$;

CREATE TRIGGER "count_added" AFTER INSERT ON "files" REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION "count_files"();
CREATE TRIGGER "count_changed" AFTER UPDATE ON "files" REFERENCING OLD TABLE AS removed NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION "count_files"();
CREATE TRIGGER "count_removed" AFTER DELETE ON "files" REFERENCING OLD TABLE AS removed
FOR EACH STATEMENT EXECUTE FUNCTION "count_files"();

CREATE FUNCTION "count_answers"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE '
    INSERT INTO storage_usage AS u
    SELECT organisation_id, (CASE WHEN key LIKE ''test:%'' THEN ''test'' ELSE ''live'' END)::environment, 0, sum(one * octet_length(body))
    FROM (' ||
    CASE TG_OP
      WHEN 'DELETE' THEN 'SELECT -1 AS one, * FROM removed'
      ELSE 'SELECT 1 AS one, * FROM added UNION ALL SELECT -1, * FROM removed'
    END || ') changed
    GROUP BY 1, 2 HAVING sum(one * octet_length(body)) <> 0 ORDER BY 1, 2
    ON CONFLICT (organisation_id, environment) DO UPDATE SET bytes = u.bytes + excluded.bytes';
  RETURN NULL;
END $$;

-- An answer comes with an update: what is inserted is only the claim to it.
CREATE TRIGGER "count_changed" AFTER UPDATE ON "idempotency_keys" REFERENCING OLD TABLE AS removed NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION "count_answers"();
CREATE TRIGGER "count_removed" AFTER DELETE ON "idempotency_keys" REFERENCING OLD TABLE AS removed
FOR EACH STATEMENT EXECUTE FUNCTION "count_answers"();

INSERT INTO "storage_usage"
SELECT organisation_id, environment, sum(files), sum(bytes) FROM (
  SELECT organisation_id, environment, 1 AS files, bytes FROM "files"
  UNION ALL
  SELECT organisation_id, (CASE WHEN key LIKE 'test:%' THEN 'test' ELSE 'live' END)::environment, 0, octet_length(body)
  FROM "idempotency_keys" WHERE body IS NOT NULL
) stored GROUP BY 1, 2;

-- Jobs that are not over, to count an organisation's before it gets another one.
-- CreateIndex
CREATE INDEX "jobs_unfinished_idx" ON "jobs"("organisation_id", "environment", "kind") WHERE "stage" <> 'over';
