-- AlterTable: what the texts of a key's requests are checked for, in the API's format; null = nothing.
ALTER TABLE "api_keys" ADD COLUMN "guardrails" JSONB;
