-- The transaction that wrote a row last. Exports read rows in this order, up to the oldest transaction that still runs, so that no row
-- appears behind what was read (docs/decisions/log-exports.md). Two statements each: a default in the first one would also give
-- older rows a value, which no export reads.
ALTER TABLE "generations" ADD COLUMN "written_xid" BIGINT;
ALTER TABLE "generations" ALTER COLUMN "written_xid" SET DEFAULT (pg_current_xact_id()::text::bigint);
ALTER TABLE "audit_events" ADD COLUMN "written_xid" BIGINT;
ALTER TABLE "audit_events" ALTER COLUMN "written_xid" SET DEFAULT (pg_current_xact_id()::text::bigint);
ALTER TABLE "request_contents" ADD COLUMN "written_xid" BIGINT;
ALTER TABLE "request_contents" ALTER COLUMN "written_xid" SET DEFAULT (pg_current_xact_id()::text::bigint);

CREATE INDEX IF NOT EXISTS "generations_written_xid_idx" ON "generations"("written_xid") WHERE "written_xid" IS NOT NULL;
CREATE INDEX IF NOT EXISTS "audit_events_written_xid_idx" ON "audit_events"("written_xid") WHERE "written_xid" IS NOT NULL;
CREATE INDEX IF NOT EXISTS "request_contents_written_xid_idx" ON "request_contents"("written_xid") WHERE "written_xid" IS NOT NULL;
CREATE INDEX "request_contents_organisation_id_created_at_idx" ON "request_contents"("organisation_id", "created_at");

-- A request that is updated (a session's next part, the end of a job) is exported again.
CREATE FUNCTION note_writing_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.written_xid := pg_current_xact_id()::text::bigint;
  RETURN NEW;
END $$;
CREATE TRIGGER "generations_written" BEFORE UPDATE ON "generations"
  FOR EACH ROW EXECUTE FUNCTION note_writing_transaction();

CREATE TABLE "log_exports" (
  "id" TEXT NOT NULL,
  "organisation_id" TEXT,
  "name" TEXT NOT NULL,
  "kind" TEXT NOT NULL,
  "url" TEXT,
  "bucket" TEXT,
  "region" TEXT,
  "prefix" TEXT,
  "path_style" BOOLEAN NOT NULL DEFAULT false,
  "format" TEXT NOT NULL,
  "gzip" BOOLEAN NOT NULL DEFAULT true,
  "streams" TEXT[] NOT NULL,
  "environment" "environment",
  "fields" JSONB,
  "interval_s" INTEGER NOT NULL,
  "header_names" TEXT[] NOT NULL DEFAULT ARRAY[]::TEXT[],
  "credentials" TEXT,
  "access_key_id" TEXT,
  "secret" TEXT,
  "previous_secret" TEXT,
  "secret_rotated_at" TIMESTAMPTZ(3),
  "enabled" BOOLEAN NOT NULL DEFAULT true,
  "paused_for_failures" BOOLEAN NOT NULL DEFAULT false,
  "due_at" TIMESTAMPTZ(3) NOT NULL,
  "lease_run" TEXT,
  "lease_until" TIMESTAMPTZ(3),
  "created_at" TIMESTAMPTZ(3) NOT NULL,
  "updated_at" TIMESTAMPTZ(3) NOT NULL,
  CONSTRAINT "log_exports_pkey" PRIMARY KEY ("id")
);
CREATE INDEX "log_exports_organisation_id_created_at_idx" ON "log_exports"("organisation_id", "created_at");
ALTER TABLE "log_exports" ADD CONSTRAINT "log_exports_organisation_id_fkey"
  FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

CREATE TABLE "log_export_cursors" (
  "id" TEXT NOT NULL,
  "export_id" TEXT NOT NULL,
  "stream" TEXT NOT NULL,
  "replay_from" TIMESTAMPTZ(3),
  "replay_to" TIMESTAMPTZ(3),
  "status" TEXT NOT NULL DEFAULT 'running',
  "position" BIGINT NOT NULL,
  "row_id" TEXT,
  "end_position" BIGINT,
  "end_row_id" TEXT,
  "batch_at" TIMESTAMPTZ(3),
  "max_rows" INTEGER NOT NULL,
  "sequence" INTEGER NOT NULL DEFAULT 0,
  "rows" BIGINT NOT NULL DEFAULT 0,
  "delivered_through" TIMESTAMPTZ(3) NOT NULL,
  "attempts" INTEGER NOT NULL DEFAULT 0,
  "failing_since" TIMESTAMPTZ(3),
  "next_attempt_at" TIMESTAMPTZ(3) NOT NULL,
  "last_delivered_at" TIMESTAMPTZ(3),
  "last_error" TEXT,
  "last_error_at" TIMESTAMPTZ(3),
  "gaps" JSONB NOT NULL DEFAULT '[]',
  "created_at" TIMESTAMPTZ(3) NOT NULL,
  "ended_at" TIMESTAMPTZ(3),
  CONSTRAINT "log_export_cursors_pkey" PRIMARY KEY ("id")
);
CREATE INDEX "log_export_cursors_export_id_created_at_idx" ON "log_export_cursors"("export_id", "created_at");
CREATE UNIQUE INDEX "log_export_cursors_live_key" ON "log_export_cursors"("export_id", "stream") WHERE "replay_from" IS NULL;
ALTER TABLE "log_export_cursors" ADD CONSTRAINT "log_export_cursors_export_id_fkey"
  FOREIGN KEY ("export_id") REFERENCES "log_exports"("id") ON DELETE CASCADE ON UPDATE CASCADE;
