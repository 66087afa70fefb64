-- Searches of the request log for what few requests have: failures, a user of the customer’s, a session. Most rows are in none of these
-- indexes. Status and code are read in the index, so that a rare code is found without the rows of all failures.
CREATE INDEX "generations_errors_idx" ON "generations"("organisation_id", "created_at", "status", "error_code") WHERE "status" >= 400;
CREATE INDEX "generations_end_user_idx" ON "generations"("organisation_id", "end_user", "created_at") WHERE "end_user" IS NOT NULL;
CREATE INDEX "generations_session_idx" ON "generations"("organisation_id", "session", "created_at") WHERE "session" IS NOT NULL;
