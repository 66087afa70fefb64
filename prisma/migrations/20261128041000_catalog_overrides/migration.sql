-- CreateTable: what operators changed in the model catalog at run time.
CREATE TABLE "catalog_overrides" (
    "kind" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "value" JSONB NOT NULL,
    "secret" TEXT,
    "updated_by" TEXT NOT NULL,
    "updated_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "catalog_overrides_pkey" PRIMARY KEY ("kind","name")
);
