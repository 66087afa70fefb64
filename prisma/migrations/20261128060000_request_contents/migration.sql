-- AlterTable: which input and output is logged.
ALTER TABLE "organisations" ADD COLUMN "content_mode" TEXT,
ADD COLUMN "content_percent" INTEGER,
ADD COLUMN "content_until" TIMESTAMPTZ(3),
ADD COLUMN "content_retention_days" INTEGER NOT NULL DEFAULT 7,
ADD COLUMN "content_redact_emails" BOOLEAN NOT NULL DEFAULT false;

-- AlterTable
ALTER TABLE "api_keys" ADD COLUMN "content_mode" TEXT,
ADD COLUMN "content_percent" INTEGER,
ADD COLUMN "content_until" TIMESTAMPTZ(3);

-- CreateTable
CREATE TABLE "request_contents" (
    "id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "file_id" TEXT,
    "input_bytes" INTEGER NOT NULL,
    "output_bytes" INTEGER NOT NULL,
    "input_truncated" BOOLEAN NOT NULL,
    "output_truncated" BOOLEAN NOT NULL,
    "redactions" INTEGER NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "request_contents_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE INDEX "request_contents_expires_at_idx" ON "request_contents"("expires_at");

-- AddForeignKey
ALTER TABLE "request_contents" ADD CONSTRAINT "request_contents_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;
