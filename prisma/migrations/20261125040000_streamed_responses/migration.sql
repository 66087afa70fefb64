-- AlterTable
ALTER TABLE "stored_responses" ADD COLUMN "streamed" BOOLEAN NOT NULL DEFAULT false;
