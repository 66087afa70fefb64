-- Old rows of these tables are deleted by time alone; rows arrive in about that order.
CREATE INDEX "usage_days_day_idx" ON "usage_days" USING BRIN ("day");
CREATE INDEX "audit_events_created_at_idx" ON "audit_events" USING BRIN ("created_at");
CREATE INDEX "alerts_created_at_idx" ON "alerts" USING BRIN ("created_at");
