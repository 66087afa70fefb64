-- CreateTable: what operators see and are told as one incident: the faults of a provider, or of the service, at one time.
CREATE TABLE "incident_groups" (
    "id" TEXT NOT NULL,
    "key" TEXT NOT NULL,
    "provider" TEXT,
    "opened_at" TIMESTAMPTZ(3) NOT NULL,
    "closed_at" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "opened_told_at" TIMESTAMPTZ(3),
    "resolved_told_at" TIMESTAMPTZ(3),

    CONSTRAINT "incident_groups_pkey" PRIMARY KEY ("id")
);

CREATE UNIQUE INDEX "incident_groups_open_key" ON "incident_groups"("key") WHERE "closed_at" IS NULL;
CREATE INDEX "incident_groups_opened_at_idx" ON "incident_groups"("opened_at");
CREATE INDEX "incident_groups_provider_opened_at_idx" ON "incident_groups"("provider", "opened_at");
CREATE INDEX "incident_groups_key_opened_at_idx" ON "incident_groups"("key", "opened_at");
CREATE INDEX "incident_groups_untold_idx" ON "incident_groups"("created_at") WHERE "resolved_told_at" IS NULL;

-- AlterTable: null = not assigned yet; workers do, also for rows of processes of the previous release.
ALTER TABLE "incidents" ADD COLUMN "group_id" TEXT;
CREATE INDEX "incidents_group_id_idx" ON "incidents"("group_id");
CREATE INDEX "incidents_ungrouped_idx" ON "incidents"("opened_at") WHERE "group_id" IS NULL;

-- CreateTable: how operators are told: one row.
CREATE TABLE "operator_notifications" (
    "id" TEXT NOT NULL,
    "email_operators" BOOLEAN NOT NULL DEFAULT true,
    "emails" TEXT[] NOT NULL DEFAULT ARRAY[]::TEXT[],
    "webhook_url" TEXT,
    "webhook_secret" TEXT,
    "slack_url" TEXT,
    "slack_end" TEXT,
    "quiet_from" TEXT,
    "quiet_to" TEXT,
    "time_zone" TEXT NOT NULL DEFAULT 'UTC',
    "topics" TEXT[] NOT NULL DEFAULT ARRAY['providers', 'service']::TEXT[],

    CONSTRAINT "operator_notifications_pkey" PRIMARY KEY ("id")
);

-- CreateTable: the outbox of messages to operators.
CREATE TABLE "incident_messages" (
    "id" TEXT NOT NULL,
    "group_id" TEXT,
    "event" TEXT NOT NULL,
    "channel" TEXT NOT NULL,
    "target" TEXT NOT NULL,
    "status" TEXT NOT NULL,
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "next_attempt_at" TIMESTAMPTZ(3) NOT NULL,
    "error" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "ended_at" TIMESTAMPTZ(3),

    CONSTRAINT "incident_messages_pkey" PRIMARY KEY ("id")
);

-- Each incident's event is sent once to each target; null groups are tests.
CREATE UNIQUE INDEX "incident_messages_group_id_event_channel_target_key" ON "incident_messages"("group_id", "event", "channel", "target");
CREATE INDEX "incident_messages_status_next_attempt_at_idx" ON "incident_messages"("status", "next_attempt_at");
CREATE INDEX "incident_messages_created_at_idx" ON "incident_messages"("created_at");

-- AlterTable: when a pause ends by itself; null = when an operator resumes.
ALTER TABLE "provider_pauses" ADD COLUMN "paused_until" TIMESTAMPTZ(3);
