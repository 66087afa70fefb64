-- Whose lock it is: only that request renews it and keeps its answer.
ALTER TABLE "idempotency_keys" ADD COLUMN "claim" TEXT;
-- What the first answer is charged, until it is booked.
ALTER TABLE "idempotency_keys" ADD COLUMN "event" JSONB;
