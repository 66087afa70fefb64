-- Wider: processes of the previous release write the three older roles, and refuse whoever has the new one.
ALTER TABLE "memberships" DROP CONSTRAINT "memberships_role_check",
  ADD CONSTRAINT "memberships_role_check" CHECK ("role" IN ('owner', 'admin', 'billing', 'member'));
