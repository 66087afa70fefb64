-- CreateEnum
CREATE TYPE "batch_status" AS ENUM ('validating', 'failed', 'in_progress', 'finalizing', 'completed', 'expired', 'cancelling', 'cancelled');

-- CreateEnum
CREATE TYPE "batch_routing" AS ENUM ('auto', 'provider', 'gateway');

-- AlterTable
ALTER TABLE "files" ADD COLUMN     "deleted_at" TIMESTAMPTZ(3),
ADD COLUMN     "environment" "environment" NOT NULL DEFAULT 'live';

-- AlterTable
ALTER TABLE "webhook_deliveries" ADD COLUMN     "batch_id" TEXT,
ALTER COLUMN "job_id" DROP NOT NULL;

-- CreateTable
CREATE TABLE "batches" (
    "id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "key_id" TEXT NOT NULL,
    "request_id" TEXT NOT NULL,
    "environment" "environment" NOT NULL,
    "endpoint" TEXT NOT NULL,
    "status" "batch_status" NOT NULL DEFAULT 'validating',
    "epoch" INTEGER NOT NULL DEFAULT 0,
    "input_file_id" TEXT NOT NULL,
    "input_key" TEXT NOT NULL,
    "input_bytes" BIGINT NOT NULL,
    "output_file_id" TEXT,
    "error_file_id" TEXT,
    "errors" JSONB,
    "routing" "batch_routing" NOT NULL DEFAULT 'auto',
    "provider" TEXT,
    "credential_id" TEXT,
    "operation" JSONB,
    "hold_nano" BIGINT NOT NULL DEFAULT 0,
    "month" TEXT NOT NULL,
    "cap_nano" BIGINT,
    "model" TEXT,
    "total" INTEGER NOT NULL DEFAULT 0,
    "completed" INTEGER NOT NULL DEFAULT 0,
    "failed" INTEGER NOT NULL DEFAULT 0,
    "cost_nano" BIGINT NOT NULL DEFAULT 0,
    "prompt_tokens" BIGINT NOT NULL DEFAULT 0,
    "cached_tokens" BIGINT NOT NULL DEFAULT 0,
    "completion_tokens" BIGINT NOT NULL DEFAULT 0,
    "reasoning_tokens" BIGINT NOT NULL DEFAULT 0,
    "resume_line" INTEGER NOT NULL DEFAULT 1,
    "resume_byte" BIGINT NOT NULL DEFAULT 0,
    "metadata" JSONB,
    "webhook_url" TEXT,
    "output_life_seconds" INTEGER,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "deadline_at" TIMESTAMPTZ(3) NOT NULL,
    "in_progress_at" TIMESTAMPTZ(3),
    "finalizing_at" TIMESTAMPTZ(3),
    "completed_at" TIMESTAMPTZ(3),
    "failed_at" TIMESTAMPTZ(3),
    "expired_at" TIMESTAMPTZ(3),
    "cancelling_at" TIMESTAMPTZ(3),
    "cancelled_at" TIMESTAMPTZ(3),

    CONSTRAINT "batches_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "batch_lines" (
    "batch_id" TEXT NOT NULL,
    "line" INTEGER NOT NULL,
    "failed" BOOLEAN NOT NULL,
    "text" TEXT,

    CONSTRAINT "batch_lines_pkey" PRIMARY KEY ("batch_id","line")
);

-- CreateTable
CREATE TABLE "batch_parts" (
    "batch_id" TEXT NOT NULL,
    "number" INTEGER NOT NULL,
    "file_id" TEXT NOT NULL,
    "storage_key" TEXT NOT NULL,

    CONSTRAINT "batch_parts_pkey" PRIMARY KEY ("batch_id","number")
);

-- CreateIndex
CREATE INDEX "files_organisation_id_purpose_id_idx" ON "files"("organisation_id", "purpose", "id");

-- CreateIndex
CREATE INDEX "jobs_organisation_id_kind_stage_idx" ON "jobs"("organisation_id", "kind", "stage");

-- CreateIndex
CREATE INDEX "jobs_kind_stage_deadline_at_idx" ON "jobs"("kind", "stage", "deadline_at");

-- CreateIndex
CREATE INDEX "webhook_deliveries_batch_id_idx" ON "webhook_deliveries"("batch_id");

-- CreateIndex
CREATE INDEX "batches_organisation_id_created_at_idx" ON "batches"("organisation_id", "created_at");

-- CreateIndex
CREATE INDEX "batches_status_deadline_at_idx" ON "batches"("status", "deadline_at");

-- CreateIndex
CREATE INDEX "batches_input_file_id_idx" ON "batches"("input_file_id");

-- AddForeignKey
ALTER TABLE "webhook_deliveries" ADD CONSTRAINT "webhook_deliveries_batch_id_fkey" FOREIGN KEY ("batch_id") REFERENCES "batches"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "batches" ADD CONSTRAINT "batches_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "batch_lines" ADD CONSTRAINT "batch_lines_batch_id_fkey" FOREIGN KEY ("batch_id") REFERENCES "batches"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "batch_parts" ADD CONSTRAINT "batch_parts_batch_id_fkey" FOREIGN KEY ("batch_id") REFERENCES "batches"("id") ON DELETE CASCADE ON UPDATE CASCADE;
