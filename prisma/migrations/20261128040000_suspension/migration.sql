-- AlterTable: an operator can suspend an organisation or a person.
ALTER TABLE "organisations" ADD COLUMN "suspended_at" TIMESTAMPTZ(3),
ADD COLUMN "suspension_reason" TEXT;

ALTER TABLE "users" ADD COLUMN "suspended_at" TIMESTAMPTZ(3),
ADD COLUMN "suspension_reason" TEXT;

-- AlterTable: what an operator changes for the whole service belongs to no organisation.
ALTER TABLE "audit_events" ALTER COLUMN "organisation_id" DROP NOT NULL;

-- CreateIndex: the operators' audit log, newest first.
CREATE INDEX "audit_events_operator_created_at_idx" ON "audit_events"("created_at", "id") WHERE "actor_kind" = 'operator';
