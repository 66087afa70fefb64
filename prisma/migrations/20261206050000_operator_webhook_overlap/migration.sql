-- AlterTable: after a roll, the previous secret of webhooks to operators also signs for 24 hours.
ALTER TABLE "operator_notifications" ADD COLUMN "previous_webhook_secret" TEXT;
ALTER TABLE "operator_notifications" ADD COLUMN "webhook_secret_rotated_at" TIMESTAMPTZ(3);
