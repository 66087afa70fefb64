-- A secret that a roll replaced may keep working beside the new one until a time. `replaced_by` is the hash of that new one.
ALTER TABLE "retired_secrets" ADD COLUMN "last4" TEXT, ADD COLUMN "replaced_by" TEXT, ADD COLUMN "valid_until" TIMESTAMPTZ(3);
CREATE UNIQUE INDEX "retired_secrets_replaced_by_key" ON "retired_secrets"("replaced_by");
