-- CreateEnum
CREATE TYPE "response_status" AS ENUM ('queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled');

-- AlterTable
ALTER TABLE "organisations" ADD COLUMN "keep_responses" BOOLEAN NOT NULL DEFAULT false,
ADD COLUMN "response_retention_days" INTEGER;

-- CreateTable
CREATE TABLE "stored_responses" (
    "id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "environment" "environment" NOT NULL,
    "key_id" TEXT NOT NULL,
    "status" "response_status" NOT NULL,
    "background" BOOLEAN NOT NULL DEFAULT false,
    "previous_id" TEXT,
    "conversation_id" TEXT,
    "session" TEXT NOT NULL,
    "head" BYTEA,
    "head_file_id" TEXT,
    "items" BYTEA,
    "items_file_id" TEXT,
    "input_count" INTEGER NOT NULL,
    "items_bytes" INTEGER NOT NULL,
    "stored_bytes" INTEGER NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "stored_responses_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "conversations" (
    "id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "environment" "environment" NOT NULL,
    "metadata" JSONB NOT NULL DEFAULT '{}',
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "conversations_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "conversation_items" (
    "number" BIGSERIAL NOT NULL,
    "conversation_id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "environment" "environment" NOT NULL,
    "id" TEXT NOT NULL,
    "item" BYTEA,
    "item_file_id" TEXT,
    "item_bytes" INTEGER NOT NULL,
    "stored_bytes" INTEGER NOT NULL,

    CONSTRAINT "conversation_items_pkey" PRIMARY KEY ("number")
);

-- CreateIndex
CREATE INDEX "stored_responses_organisation_id_created_at_idx" ON "stored_responses"("organisation_id", "created_at");

-- CreateIndex
CREATE INDEX "stored_responses_expires_at_idx" ON "stored_responses"("expires_at");

-- CreateIndex
CREATE INDEX "conversations_organisation_id_created_at_idx" ON "conversations"("organisation_id", "created_at");

-- CreateIndex
CREATE INDEX "conversations_expires_at_idx" ON "conversations"("expires_at");

-- CreateIndex
CREATE INDEX "conversation_items_conversation_id_number_idx" ON "conversation_items"("conversation_id", "number");

-- CreateIndex
CREATE INDEX "conversation_items_conversation_id_id_idx" ON "conversation_items"("conversation_id", "id");

-- AddForeignKey
ALTER TABLE "stored_responses" ADD CONSTRAINT "stored_responses_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "conversations" ADD CONSTRAINT "conversations_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "conversation_items" ADD CONSTRAINT "conversation_items_conversation_id_fkey" FOREIGN KEY ("conversation_id") REFERENCES "conversations"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- What these rows hold counts in the storage quota, in the transaction that writes or deletes them. Rows of the usage are
-- taken in one order: two transactions never wait in a circle for them.
CREATE FUNCTION "count_stored_bytes"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE '
    INSERT INTO storage_usage AS u
    SELECT organisation_id, environment, 0, sum(one * stored_bytes) FROM (' ||
    CASE TG_OP
      WHEN 'INSERT' THEN 'SELECT 1 AS one, organisation_id, environment, stored_bytes FROM added'
      WHEN 'DELETE' THEN 'SELECT -1 AS one, organisation_id, environment, stored_bytes FROM removed'
      ELSE 'SELECT 1 AS one, organisation_id, environment, stored_bytes FROM added
            UNION ALL SELECT -1, organisation_id, environment, stored_bytes FROM removed'
    END || ') changed
    GROUP BY 1, 2 HAVING sum(one * stored_bytes) <> 0 ORDER BY 1, 2
    ON CONFLICT (organisation_id, environment) DO UPDATE SET bytes = u.bytes + excluded.bytes';
  RETURN NULL;
END $$;

CREATE TRIGGER "count_added" AFTER INSERT ON "stored_responses" REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION "count_stored_bytes"();
CREATE TRIGGER "count_changed" AFTER UPDATE ON "stored_responses" REFERENCING OLD TABLE AS removed NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION "count_stored_bytes"();
CREATE TRIGGER "count_removed" AFTER DELETE ON "stored_responses" REFERENCING OLD TABLE AS removed
FOR EACH STATEMENT EXECUTE FUNCTION "count_stored_bytes"();

CREATE TRIGGER "count_added" AFTER INSERT ON "conversation_items" REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION "count_stored_bytes"();
CREATE TRIGGER "count_changed" AFTER UPDATE ON "conversation_items" REFERENCING OLD TABLE AS removed NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION "count_stored_bytes"();
CREATE TRIGGER "count_removed" AFTER DELETE ON "conversation_items" REFERENCING OLD TABLE AS removed
FOR EACH STATEMENT EXECUTE FUNCTION "count_stored_bytes"();
