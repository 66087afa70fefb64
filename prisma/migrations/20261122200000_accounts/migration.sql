-- AlterTable
ALTER TABLE "organisations" ADD COLUMN "slug" TEXT, ADD COLUMN "logo" TEXT, ADD COLUMN "metadata" TEXT,
  ADD COLUMN "alert_webhook_url" TEXT, ADD COLUMN "low_balance_nano" BIGINT DEFAULT 5000000000,
  ADD COLUMN "low_balance_since" TIMESTAMPTZ(3);
UPDATE "organisations" SET "slug" = "id";
ALTER TABLE "organisations" ALTER COLUMN "slug" SET NOT NULL;
CREATE UNIQUE INDEX "organisations_slug_key" ON "organisations"("slug");

-- AlterTable
ALTER TABLE "users" ADD COLUMN "image" TEXT, ADD COLUMN "operator" BOOLEAN NOT NULL DEFAULT false,
  ADD COLUMN "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP;

-- AlterTable: members get an id of their own, and a role of the accounts' library, which writes text.
ALTER TABLE "memberships" DROP CONSTRAINT "memberships_pkey", ADD COLUMN "id" TEXT;
UPDATE "memberships" SET "id" = 'mem_' || gen_random_uuid();
ALTER TABLE "memberships" ALTER COLUMN "id" SET NOT NULL, ADD CONSTRAINT "memberships_pkey" PRIMARY KEY ("id"),
  ALTER COLUMN "role" TYPE TEXT USING "role"::text,
  ADD CONSTRAINT "memberships_role_check" CHECK ("role" IN ('owner', 'admin', 'member'));
CREATE UNIQUE INDEX "memberships_organisation_id_user_id_key" ON "memberships"("organisation_id", "user_id");
DROP TYPE "role";

-- AlterTable
ALTER TABLE "api_keys" ADD COLUMN "created_by_id" TEXT;
ALTER TABLE "generations" ADD COLUMN "routing" JSONB;
ALTER TABLE "webhook_deliveries" ADD COLUMN "data" JSONB;
ALTER TABLE "webhook_attempts" ADD COLUMN "headers" JSONB, ADD COLUMN "body" TEXT;

-- CreateEnum
CREATE TYPE "top_up_status" AS ENUM ('open', 'processing', 'paid', 'failed', 'expired', 'refunded');

-- CreateTable
CREATE TABLE "sessions" (
    "id" TEXT NOT NULL,
    "token" TEXT NOT NULL,
    "user_id" TEXT NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "ip_address" TEXT,
    "user_agent" TEXT,
    "active_organisation_id" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "sessions_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "accounts" (
    "id" TEXT NOT NULL,
    "user_id" TEXT NOT NULL,
    "account_id" TEXT NOT NULL,
    "provider_id" TEXT NOT NULL,
    "access_token" TEXT,
    "refresh_token" TEXT,
    "id_token" TEXT,
    "access_token_expires_at" TIMESTAMPTZ(3),
    "refresh_token_expires_at" TIMESTAMPTZ(3),
    "scope" TEXT,
    "password" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "accounts_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "verifications" (
    "id" TEXT NOT NULL,
    "identifier" TEXT NOT NULL,
    "value" TEXT NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "verifications_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "invitations" (
    "id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "email" TEXT NOT NULL,
    "role" TEXT NOT NULL,
    "status" TEXT NOT NULL DEFAULT 'pending',
    "inviter_id" TEXT NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "invitations_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "audit_events" (
    "id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "actor_kind" TEXT NOT NULL,
    "actor_id" TEXT,
    "actor_name" TEXT NOT NULL,
    "action" TEXT NOT NULL,
    "target_id" TEXT,
    "target_name" TEXT,
    "changes" JSONB,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "audit_events_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "alerts" (
    "id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "cause" TEXT NOT NULL,
    "type" TEXT NOT NULL,
    "key_id" TEXT,
    "data" JSONB NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "emailed_at" TIMESTAMPTZ(3),
    "email_attempts" INTEGER NOT NULL DEFAULT 0,
    "next_email_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "alerts_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "top_ups" (
    "id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "user_id" TEXT,
    "amount_nano" BIGINT NOT NULL,
    "method" TEXT,
    "status" "top_up_status" NOT NULL DEFAULT 'open',
    "checkout_session_id" TEXT,
    "payment_id" TEXT,
    "returned_nano" BIGINT NOT NULL DEFAULT 0,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "top_ups_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE UNIQUE INDEX "sessions_token_key" ON "sessions"("token");
CREATE INDEX "sessions_user_id_idx" ON "sessions"("user_id");
CREATE INDEX "sessions_expires_at_idx" ON "sessions"("expires_at");
CREATE UNIQUE INDEX "accounts_provider_id_account_id_key" ON "accounts"("provider_id", "account_id");
CREATE INDEX "accounts_user_id_idx" ON "accounts"("user_id");
CREATE INDEX "verifications_identifier_idx" ON "verifications"("identifier");
CREATE INDEX "verifications_expires_at_idx" ON "verifications"("expires_at");
CREATE INDEX "invitations_organisation_id_status_idx" ON "invitations"("organisation_id", "status");
CREATE INDEX "invitations_email_idx" ON "invitations"("email");
CREATE INDEX "audit_events_organisation_id_created_at_idx" ON "audit_events"("organisation_id", "created_at");
CREATE UNIQUE INDEX "alerts_cause_key" ON "alerts"("cause");
CREATE INDEX "alerts_organisation_id_created_at_idx" ON "alerts"("organisation_id", "created_at");
CREATE INDEX "alerts_emailed_at_next_email_at_idx" ON "alerts"("emailed_at", "next_email_at");
CREATE UNIQUE INDEX "top_ups_checkout_session_id_key" ON "top_ups"("checkout_session_id");
CREATE UNIQUE INDEX "top_ups_payment_id_key" ON "top_ups"("payment_id");
CREATE INDEX "top_ups_organisation_id_created_at_idx" ON "top_ups"("organisation_id", "created_at");

-- AddForeignKey
ALTER TABLE "sessions" ADD CONSTRAINT "sessions_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE;
ALTER TABLE "accounts" ADD CONSTRAINT "accounts_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE;
ALTER TABLE "invitations" ADD CONSTRAINT "invitations_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;
ALTER TABLE "invitations" ADD CONSTRAINT "invitations_inviter_id_fkey" FOREIGN KEY ("inviter_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE;
ALTER TABLE "audit_events" ADD CONSTRAINT "audit_events_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;
ALTER TABLE "alerts" ADD CONSTRAINT "alerts_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;
ALTER TABLE "top_ups" ADD CONSTRAINT "top_ups_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;
