-- AlterTable: for how many seconds answers to a key may be served again; null = they are not cached.
ALTER TABLE "api_keys" ADD COLUMN "cache_ttl_s" INTEGER;

-- AlterTable: whether the answer was served from the response cache.
ALTER TABLE "generations" ADD COLUMN "cached" BOOLEAN;
