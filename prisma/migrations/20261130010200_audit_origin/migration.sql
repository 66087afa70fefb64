-- Where a change came from: the address and the program of the person or the provisioning key.
ALTER TABLE "audit_events" ADD COLUMN "ip_address" TEXT, ADD COLUMN "user_agent" TEXT;
