-- What explains a request of the log. All nullable: processes of the previous release write rows without them.
ALTER TABLE "generations"
  ADD COLUMN "error_message" TEXT,
  ADD COLUMN "error_param" TEXT,
  ADD COLUMN "overhead_ms" INTEGER,
  ADD COLUMN "end_user" TEXT,
  ADD COLUMN "session" TEXT,
  ADD COLUMN "metadata" JSONB,
  ADD COLUMN "parameters" JSONB;

-- Refused calls beyond those that have rows of their own in the log, by key and minute.
CREATE TABLE "rejected_calls" (
  "organisation_id" TEXT NOT NULL,
  "key_id" TEXT NOT NULL,
  "minute" TIMESTAMPTZ(3) NOT NULL,
  "kind" TEXT NOT NULL,
  "environment" "environment" NOT NULL,
  "model" TEXT NOT NULL,
  "status" INTEGER NOT NULL,
  "error_code" TEXT NOT NULL,
  "count" BIGINT NOT NULL,
  "first_request_id" TEXT NOT NULL,
  CONSTRAINT "rejected_calls_pkey" PRIMARY KEY ("key_id", "minute", "error_code", "kind", "model")
);
CREATE INDEX "rejected_calls_organisation_id_minute_idx" ON "rejected_calls" ("organisation_id", "minute");
