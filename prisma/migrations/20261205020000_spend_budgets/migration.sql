-- Monthly budgets of organisations and members.
CREATE TABLE "budgets" (
    "id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "member_id" TEXT NOT NULL DEFAULT '',
    "limit_nano" BIGINT NOT NULL,
    "blocks" BOOLEAN NOT NULL,
    "alert_percents" INTEGER[],
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "budgets_pkey" PRIMARY KEY ("id")
);

CREATE UNIQUE INDEX "budgets_organisation_id_member_id_key" ON "budgets"("organisation_id", "member_id");

ALTER TABLE "budgets" ADD CONSTRAINT "budgets_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- The accounts that the hold of a job or batch counts in.
ALTER TABLE "jobs" ADD COLUMN "budgets" TEXT;
ALTER TABLE "batches" ADD COLUMN "budgets" TEXT;
