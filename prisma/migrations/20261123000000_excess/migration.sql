-- What a provider charged beyond the reservation of its request: an entry of its own kind beside the charge.
ALTER TYPE "ledger_kind" ADD VALUE 'excess';

-- By its cause: a value that was just added to an enum cannot be used in the same transaction.
CREATE INDEX "ledger_entries_excess_idx" ON "ledger_entries"("created_at") WHERE cause LIKE 'excess:%';

-- The part of a month's spend that exceeded its reservations, so that the rest can be compared with the cap.
ALTER TABLE "key_spend" ADD COLUMN "excess_nano" BIGINT NOT NULL DEFAULT 0;

-- Why a request that used tokens was not charged. Requests of before it was noted say so.
ALTER TABLE "generations" ADD COLUMN "waiver" TEXT DEFAULT 'not_noted';
ALTER TABLE "generations" ALTER COLUMN "waiver" DROP DEFAULT;

-- A media job that is to be cancelled once it is known whether its provider began.
ALTER TABLE "jobs" ADD COLUMN "cancel_requested_at" TIMESTAMPTZ(3);
