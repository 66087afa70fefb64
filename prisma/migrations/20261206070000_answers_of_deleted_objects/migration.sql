-- AlterTable: what a stored answer shows, so that it is deleted with it. Answers of processes of the previous release have none.
ALTER TABLE "idempotency_keys" ADD COLUMN "object_ids" TEXT[] DEFAULT ARRAY[]::TEXT[];

-- CreateIndex
CREATE INDEX "idempotency_keys_object_ids_idx" ON "idempotency_keys" USING GIN ("object_ids");
