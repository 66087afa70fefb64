-- CreateTable: addresses that receive an organisation's events by type.
CREATE TABLE "webhook_endpoints" (
    "id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "url" TEXT NOT NULL,
    "description" TEXT NOT NULL DEFAULT '',
    "events" TEXT[],
    "enabled" BOOLEAN NOT NULL DEFAULT true,
    "enabled_at" TIMESTAMPTZ(3) NOT NULL,
    "disabled_for_failures" BOOLEAN NOT NULL DEFAULT false,
    "secret" TEXT,
    "previous_secret" TEXT,
    "secret_rotated_at" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "webhook_endpoints_pkey" PRIMARY KEY ("id")
);

-- CreateIndex: an event goes to an address once.
CREATE UNIQUE INDEX "webhook_endpoints_organisation_id_url_key" ON "webhook_endpoints"("organisation_id", "url");

-- AddForeignKey
ALTER TABLE "webhook_endpoints" ADD CONSTRAINT "webhook_endpoints_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AlterTable
ALTER TABLE "webhook_deliveries" ADD COLUMN "endpoint_id" TEXT,
ADD COLUMN "requested" BOOLEAN NOT NULL DEFAULT true;

-- CreateIndex: most deliveries of before have no endpoint.
CREATE INDEX "webhook_deliveries_endpoint_id_created_at_idx" ON "webhook_deliveries"("endpoint_id", "created_at");

-- AddForeignKey
ALTER TABLE "webhook_deliveries" ADD CONSTRAINT "webhook_deliveries_endpoint_id_fkey" FOREIGN KEY ("endpoint_id") REFERENCES "webhook_endpoints"("id") ON DELETE SET NULL ON UPDATE CASCADE;
