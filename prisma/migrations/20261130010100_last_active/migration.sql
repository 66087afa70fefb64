-- When a member last used the dashboard in the organisation.
ALTER TABLE "memberships" ADD COLUMN "last_active_at" TIMESTAMPTZ(3);
