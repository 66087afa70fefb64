-- The service tiers that a key's requests may not ask for, and the tier that a request was served at.
ALTER TABLE "api_keys" ADD COLUMN "denied_service_tiers" TEXT[] NOT NULL DEFAULT ARRAY[]::TEXT[];
ALTER TABLE "generations" ADD COLUMN "service_tier" TEXT;
