-- CreateEnum
CREATE TYPE "role" AS ENUM ('owner', 'admin', 'member');

-- CreateEnum
CREATE TYPE "environment" AS ENUM ('live', 'test');

-- CreateEnum
CREATE TYPE "routing_mode" AS ENUM ('cost', 'balanced', 'quality');

-- CreateEnum
CREATE TYPE "ledger_kind" AS ENUM ('deposit', 'charge', 'refund', 'adjustment');

-- CreateEnum
CREATE TYPE "job_status" AS ENUM ('queued', 'in_progress', 'completed', 'failed', 'cancelled', 'expired');

-- CreateTable
CREATE TABLE "organisations" (
    "id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "webhook_secret" TEXT,
    "previous_webhook_secret" TEXT,
    "webhook_secret_rotated_at" TIMESTAMPTZ(3),

    CONSTRAINT "organisations_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "users" (
    "id" TEXT NOT NULL,
    "email" TEXT NOT NULL,
    "email_verified" BOOLEAN NOT NULL DEFAULT false,
    "name" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "users_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "memberships" (
    "organisation_id" TEXT NOT NULL,
    "user_id" TEXT NOT NULL,
    "role" "role" NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "memberships_pkey" PRIMARY KEY ("organisation_id","user_id")
);

-- CreateTable
CREATE TABLE "api_keys" (
    "id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "hash" TEXT NOT NULL,
    "prefix" TEXT NOT NULL,
    "last4" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "environment" "environment" NOT NULL,
    "mode" "routing_mode" NOT NULL DEFAULT 'balanced',
    "rpm_limit" INTEGER,
    "tpm_limit" INTEGER,
    "monthly_spend_cap_nano" BIGINT,
    "model_allowlist" TEXT[],
    "scopes" TEXT[] DEFAULT ARRAY['*']::TEXT[],
    "expires_at" TIMESTAMPTZ(3),
    "revoked_at" TIMESTAMPTZ(3),
    "disabled" BOOLEAN NOT NULL DEFAULT false,
    "version" INTEGER NOT NULL DEFAULT 1,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,
    "last_used_at" TIMESTAMPTZ(3),

    CONSTRAINT "api_keys_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "retired_secrets" (
    "hash" TEXT NOT NULL,
    "key_id" TEXT NOT NULL,
    "retired_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "retired_secrets_pkey" PRIMARY KEY ("hash")
);

-- CreateTable
CREATE TABLE "provisioning_keys" (
    "id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "hash" TEXT NOT NULL,
    "prefix" TEXT NOT NULL,
    "last4" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "revoked_at" TIMESTAMPTZ(3),

    CONSTRAINT "provisioning_keys_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "wallets" (
    "organisation_id" TEXT NOT NULL,
    "balance_nano" BIGINT NOT NULL DEFAULT 0,
    "version" BIGINT NOT NULL DEFAULT 0,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "wallets_pkey" PRIMARY KEY ("organisation_id")
);

-- CreateTable
CREATE TABLE "ledger_entries" (
    "id" BIGSERIAL NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "kind" "ledger_kind" NOT NULL,
    "amount_nano" BIGINT NOT NULL,
    "cause" TEXT NOT NULL,
    "key_id" TEXT,
    "method" TEXT,
    "available_at" TIMESTAMPTZ(3),
    "note" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "ledger_entries_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "key_spend" (
    "key_id" TEXT NOT NULL,
    "month" TEXT NOT NULL,
    "spent_nano" BIGINT NOT NULL DEFAULT 0,
    "cap_nano" BIGINT,
    "requests" BIGINT NOT NULL DEFAULT 0,
    "version" BIGINT NOT NULL DEFAULT 0,

    CONSTRAINT "key_spend_pkey" PRIMARY KEY ("key_id","month")
);

-- CreateTable
CREATE TABLE "generations" (
    "id" TEXT NOT NULL DEFAULT '',
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "key_id" TEXT NOT NULL,
    "request_id" TEXT NOT NULL,
    "upstream_id" TEXT,
    "kind" TEXT NOT NULL,
    "environment" "environment" NOT NULL,
    "model" TEXT NOT NULL,
    "provider" TEXT,
    "mode" TEXT,
    "status" INTEGER NOT NULL,
    "error_code" TEXT,
    "finish_reason" TEXT,
    "streamed" BOOLEAN NOT NULL,
    "attempts" INTEGER NOT NULL,
    "prompt_tokens" INTEGER NOT NULL,
    "completion_tokens" INTEGER NOT NULL,
    "cached_tokens" INTEGER NOT NULL,
    "reasoning_tokens" INTEGER NOT NULL,
    "estimated" BOOLEAN NOT NULL,
    "cost_nano" BIGINT NOT NULL,
    "first_byte_ms" INTEGER,
    "duration_ms" INTEGER NOT NULL,

    CONSTRAINT "generations_pkey" PRIMARY KEY ("id","created_at")
) PARTITION BY RANGE ("created_at");

-- The months of the request log are tables of a schema of their own, which the Prisma CLI does not look into: a worker
-- creates them ahead and drops them whole when they are old. What has no month yet lands in the default one.
CREATE SCHEMA "partitions";
CREATE TABLE "partitions"."generations_other" PARTITION OF "generations" DEFAULT;

-- CreateTable
CREATE TABLE "jobs" (
    "id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "key_id" TEXT NOT NULL,
    "environment" "environment" NOT NULL,
    "kind" TEXT NOT NULL,
    "status" "job_status" NOT NULL DEFAULT 'queued',
    "model" TEXT NOT NULL,
    "provider" TEXT,
    "input" JSONB NOT NULL,
    "operation" JSONB,
    "result" JSONB,
    "error" JSONB,
    "progress" INTEGER NOT NULL DEFAULT 0,
    "hold_nano" BIGINT NOT NULL DEFAULT 0,
    "cost_nano" BIGINT,
    "webhook_url" TEXT,
    "metadata" JSONB NOT NULL DEFAULT '{}',
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "started_at" TIMESTAMPTZ(3),
    "completed_at" TIMESTAMPTZ(3),
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "jobs_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "files" (
    "id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "purpose" TEXT NOT NULL,
    "filename" TEXT NOT NULL,
    "bytes" BIGINT NOT NULL,
    "content_type" TEXT NOT NULL,
    "storage_key" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "files_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "idempotency_keys" (
    "organisation_id" TEXT NOT NULL,
    "key" TEXT NOT NULL,
    "body_hash" TEXT NOT NULL,
    "locked_until" TIMESTAMPTZ(3),
    "status" INTEGER,
    "headers" JSONB,
    "body" BYTEA,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "idempotency_keys_pkey" PRIMARY KEY ("organisation_id","key")
);

-- CreateIndex
CREATE UNIQUE INDEX "users_email_key" ON "users"("email");

-- CreateIndex
CREATE INDEX "memberships_user_id_idx" ON "memberships"("user_id");

-- CreateIndex
CREATE UNIQUE INDEX "api_keys_hash_key" ON "api_keys"("hash");

-- CreateIndex
CREATE INDEX "api_keys_organisation_id_created_at_idx" ON "api_keys"("organisation_id", "created_at");

-- CreateIndex
CREATE UNIQUE INDEX "provisioning_keys_hash_key" ON "provisioning_keys"("hash");

-- CreateIndex
CREATE UNIQUE INDEX "ledger_entries_cause_key" ON "ledger_entries"("cause");

-- CreateIndex
CREATE INDEX "ledger_entries_organisation_id_id_idx" ON "ledger_entries"("organisation_id", "id");

-- CreateIndex
CREATE INDEX "ledger_entries_organisation_id_available_at_idx" ON "ledger_entries"("organisation_id", "available_at");

-- CreateIndex
CREATE INDEX "generations_organisation_id_created_at_idx" ON "generations"("organisation_id", "created_at");

-- CreateIndex
CREATE INDEX "generations_upstream_id_idx" ON "generations"("upstream_id");

-- CreateIndex
CREATE INDEX "jobs_organisation_id_created_at_idx" ON "jobs"("organisation_id", "created_at");

-- CreateIndex
CREATE INDEX "jobs_status_expires_at_idx" ON "jobs"("status", "expires_at");

-- CreateIndex
CREATE INDEX "files_organisation_id_created_at_idx" ON "files"("organisation_id", "created_at");

-- CreateIndex
CREATE INDEX "files_expires_at_idx" ON "files"("expires_at");

-- CreateIndex
CREATE INDEX "idempotency_keys_created_at_idx" ON "idempotency_keys"("created_at");

-- AddForeignKey
ALTER TABLE "memberships" ADD CONSTRAINT "memberships_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "memberships" ADD CONSTRAINT "memberships_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "retired_secrets" ADD CONSTRAINT "retired_secrets_key_id_fkey" FOREIGN KEY ("key_id") REFERENCES "api_keys"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "provisioning_keys" ADD CONSTRAINT "provisioning_keys_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "wallets" ADD CONSTRAINT "wallets_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "ledger_entries" ADD CONSTRAINT "ledger_entries_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "key_spend" ADD CONSTRAINT "key_spend_key_id_fkey" FOREIGN KEY ("key_id") REFERENCES "api_keys"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "jobs" ADD CONSTRAINT "jobs_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "files" ADD CONSTRAINT "files_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "idempotency_keys" ADD CONSTRAINT "idempotency_keys_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;
