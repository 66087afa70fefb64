-- CreateTable
CREATE TABLE "request_views" (
    "organisation_id" TEXT NOT NULL,
    "user_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "query" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "request_views_pkey" PRIMARY KEY ("organisation_id","user_id","name")
);

-- AddForeignKey
ALTER TABLE "request_views" ADD CONSTRAINT "request_views_organisation_id_user_id_fkey"
FOREIGN KEY ("organisation_id", "user_id") REFERENCES "memberships"("organisation_id", "user_id") ON DELETE CASCADE ON UPDATE CASCADE;
