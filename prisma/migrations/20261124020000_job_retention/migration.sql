-- AlterTable
ALTER TABLE "jobs" ADD COLUMN "forgotten_at" TIMESTAMPTZ(3),
ADD COLUMN "deleted_at" TIMESTAMPTZ(3);

-- What the sweep of private data has yet to look at, the oldest first: jobs that are over and still have what was asked for.
-- CreateIndex
CREATE INDEX "jobs_unforgotten_idx" ON "jobs"("completed_at") WHERE "stage" = 'over' AND "forgotten_at" IS NULL;
