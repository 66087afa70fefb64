-- AlterTable
ALTER TABLE "generations" ADD COLUMN "web_searches" INTEGER;
