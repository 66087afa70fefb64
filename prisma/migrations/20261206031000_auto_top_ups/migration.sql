-- Automatic top-ups: what an organisation set, its saved card, and the payments that the gateway begins by them.
CREATE TABLE "auto_top_ups" (
  "organisation_id" TEXT NOT NULL,
  "enabled" BOOLEAN NOT NULL DEFAULT false,
  "threshold_cents" INTEGER NOT NULL,
  "amount_cents" INTEGER NOT NULL,
  "monthly_limit_cents" INTEGER NOT NULL,
  "customer_id" TEXT,
  "setup_session_id" TEXT,
  "setup_started_at" TIMESTAMPTZ(3),
  "payment_method_id" TEXT,
  "card_brand" TEXT,
  "card_last4" TEXT,
  "card_expires" TEXT,
  "failures" INTEGER NOT NULL DEFAULT 0,
  "next_attempt_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
  "disabled_reason" TEXT,
  "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
  "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

  CONSTRAINT "auto_top_ups_pkey" PRIMARY KEY ("organisation_id"),
  CONSTRAINT "auto_top_ups_amounts_check" CHECK (
    "threshold_cents" > 0 AND "amount_cents" > 0 AND "monthly_limit_cents" >= "amount_cents")
);

ALTER TABLE "auto_top_ups" ADD CONSTRAINT "auto_top_ups_organisation_id_fkey"
  FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

ALTER TABLE "top_ups" ADD COLUMN "automatic" BOOLEAN NOT NULL DEFAULT false,
  ADD COLUMN "customer_id" TEXT,
  ADD COLUMN "payment_method_id" TEXT,
  ADD COLUMN "failure_code" TEXT;

-- One in flight per organisation. The previous release's payments are not automatic.
CREATE UNIQUE INDEX "top_ups_automatic_in_flight_key" ON "top_ups"("organisation_id")
  WHERE "automatic" AND "status" IN ('open', 'processing');
CREATE INDEX "top_ups_automatic_idx" ON "top_ups"("created_at") WHERE "automatic";
