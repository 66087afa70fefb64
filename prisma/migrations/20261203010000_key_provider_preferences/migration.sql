-- Which providers may serve a key: the object `provider` of its policy.
ALTER TABLE "api_keys" ADD COLUMN "provider_preferences" JSONB;
