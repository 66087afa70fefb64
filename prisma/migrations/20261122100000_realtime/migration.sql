-- AlterTable
ALTER TABLE "generations" ADD COLUMN     "part" INTEGER NOT NULL DEFAULT 0;
