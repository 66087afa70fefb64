-- AlterTable: what a request asked for, and the gateway's own part of its duration.
ALTER TABLE "generations" ADD COLUMN "parameters" JSONB,
ADD COLUMN "metadata" JSONB,
ADD COLUMN "end_user" TEXT,
ADD COLUMN "session" TEXT,
ADD COLUMN "overhead_ms" INTEGER;
