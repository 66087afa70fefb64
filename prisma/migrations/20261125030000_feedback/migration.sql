-- CreateTable
CREATE TABLE "feedback" (
    "generation_id" TEXT NOT NULL,
    "key_id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "environment" "environment" NOT NULL,
    "model" TEXT NOT NULL,
    "provider" TEXT,
    "score" DOUBLE PRECISION NOT NULL,
    "comment" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "feedback_pkey" PRIMARY KEY ("generation_id","key_id")
);

-- CreateTable
CREATE TABLE "quality_counters" (
    "organisation_id" TEXT NOT NULL,
    "scope" TEXT NOT NULL,
    "model" TEXT NOT NULL,
    "explicit_sum" DOUBLE PRECISION NOT NULL DEFAULT 0,
    "explicit_count" DOUBLE PRECISION NOT NULL DEFAULT 0,
    "implicit_sum" DOUBLE PRECISION NOT NULL DEFAULT 0,
    "implicit_count" DOUBLE PRECISION NOT NULL DEFAULT 0,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "quality_counters_pkey" PRIMARY KEY ("organisation_id","scope","model")
);

-- AlterTable
ALTER TABLE "api_keys" ADD COLUMN "learning" BOOLEAN NOT NULL DEFAULT true;

-- CreateIndex
CREATE INDEX "feedback_created_at_idx" ON "feedback"("created_at");

-- CreateIndex
CREATE INDEX "quality_counters_updated_at_idx" ON "quality_counters"("updated_at");
