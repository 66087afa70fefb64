-- The trace that the work of a job or batch continues: W3C `traceparent`.
ALTER TABLE "jobs" ADD COLUMN "traceparent" TEXT;
ALTER TABLE "batches" ADD COLUMN "traceparent" TEXT;
