-- CreateTable: what went wrong, and until when.
CREATE TABLE "incidents" (
    "id" TEXT NOT NULL,
    "kind" TEXT NOT NULL,
    "subject" TEXT NOT NULL,
    "provider" TEXT,
    "model" TEXT,
    "message" TEXT,
    "opened_at" TIMESTAMPTZ(3) NOT NULL,
    "seen_at" TIMESTAMPTZ(3) NOT NULL,
    "closed_at" TIMESTAMPTZ(3),

    CONSTRAINT "incidents_pkey" PRIMARY KEY ("id")
);

-- One open incident of each kind and subject: those who see the same thing do not repeat it.
CREATE UNIQUE INDEX "incidents_open_key" ON "incidents"("kind", "subject") WHERE "closed_at" IS NULL;
CREATE INDEX "incidents_opened_at_idx" ON "incidents"("opened_at");
CREATE INDEX "incidents_provider_opened_at_idx" ON "incidents"("provider", "opened_at");

-- CreateTable: providers that get no new calls, as an operator decided.
CREATE TABLE "provider_pauses" (
    "provider" TEXT NOT NULL,
    "reason" TEXT,
    "paused_by" TEXT NOT NULL,
    "paused_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "provider_pauses_pkey" PRIMARY KEY ("provider")
);

-- AlterTable: what an operator changes for the whole service belongs to no organisation.
ALTER TABLE "audit_events" ALTER COLUMN "organisation_id" DROP NOT NULL;
