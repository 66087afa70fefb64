-- CreateTable: conditions that members define, and the channels that are told of them.
CREATE TABLE "alert_rules" (
    "id" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "kind" TEXT NOT NULL,
    "threshold" DOUBLE PRECISION NOT NULL,
    "window" TEXT,
    "min_requests" INTEGER NOT NULL,
    "key_id" TEXT,
    "model" TEXT,
    "environment" "environment" NOT NULL,
    "email" TEXT,
    "member_ids" TEXT[],
    "webhook" BOOLEAN NOT NULL,
    "slack_url" TEXT,
    "slack_end" TEXT,
    "enabled" BOOLEAN NOT NULL,
    "value" DOUBLE PRECISION,
    "evaluated_at" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "alert_rules_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE INDEX "alert_rules_organisation_id_created_at_idx" ON "alert_rules"("organisation_id", "created_at");

-- AddForeignKey
ALTER TABLE "alert_rules" ADD CONSTRAINT "alert_rules_organisation_id_fkey" FOREIGN KEY ("organisation_id") REFERENCES "organisations"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- CreateTable: what fires now.
CREATE TABLE "alert_episodes" (
    "rule_id" TEXT NOT NULL,
    "subject" TEXT NOT NULL,
    "reference" TEXT,
    "name" TEXT,
    "since" TIMESTAMPTZ(3) NOT NULL,
    "calm" INTEGER NOT NULL DEFAULT 0,

    CONSTRAINT "alert_episodes_pkey" PRIMARY KEY ("rule_id", "subject")
);

-- AddForeignKey
ALTER TABLE "alert_episodes" ADD CONSTRAINT "alert_episodes_rule_id_fkey" FOREIGN KEY ("rule_id") REFERENCES "alert_rules"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AlterTable: null for alerts that go to owners and admins.
ALTER TABLE "alerts" ADD COLUMN "email_to" JSONB;

-- AlterTable: a message to the Slack webhook of a rule, whose URL is a secret of the rule.
ALTER TABLE "webhook_deliveries" ADD COLUMN "alert_rule_id" TEXT;

-- CreateIndex: the latest message of each rule. Deliveries of before have no rule.
CREATE INDEX "webhook_deliveries_alert_rule_id_created_at_idx" ON "webhook_deliveries"("alert_rule_id", "created_at");
