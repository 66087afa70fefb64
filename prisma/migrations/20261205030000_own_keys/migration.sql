-- AlterTable
ALTER TABLE "api_keys" ADD COLUMN "own_keys" TEXT;

-- AlterTable
ALTER TABLE "generations" ADD COLUMN "provider_key_id" TEXT, ADD COLUMN "upstream_cost_nano" BIGINT;

-- CreateTable
CREATE TABLE "provider_keys" (
    "id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "provider" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "secret" TEXT NOT NULL,
    "last4" TEXT NOT NULL,
    "enabled" BOOLEAN NOT NULL DEFAULT true,
    "models" TEXT[] DEFAULT ARRAY[]::TEXT[],
    "key_ids" TEXT[] DEFAULT ARRAY[]::TEXT[],
    "check_outcome" TEXT,
    "check_reason" TEXT,
    "checked_at" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "provider_keys_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE INDEX "provider_keys_organisation_id_created_at_idx" ON "provider_keys"("organisation_id", "created_at");

-- AddForeignKey
ALTER TABLE "provider_keys" ADD CONSTRAINT "provider_keys_organisation_id_fkey"
FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;
