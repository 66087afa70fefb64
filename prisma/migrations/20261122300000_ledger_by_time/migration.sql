-- Statements are read by time, and nothing reads an organisation’s entries by id.
CREATE INDEX "ledger_entries_organisation_id_created_at_id_idx" ON "ledger_entries"("organisation_id", "created_at", "id");
DROP INDEX "ledger_entries_organisation_id_id_idx";
