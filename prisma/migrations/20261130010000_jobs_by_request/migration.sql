-- A job is found by the id of the request that created it. On a large table, create the index CONCURRENTLY by hand before.
CREATE INDEX IF NOT EXISTS "jobs_request_id_idx" ON "jobs"("request_id");
