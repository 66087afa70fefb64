-- Each entry of the ledger for a cost above a reservation, until it is judged and learned from.
CREATE TABLE "excesses" (
    "cause" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "key_id" TEXT NOT NULL,
    "amount_nano" BIGINT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "booked_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "handled_at" TIMESTAMPTZ(3),

    CONSTRAINT "excesses_pkey" PRIMARY KEY ("cause")
);

CREATE INDEX "excesses_organisation_id_created_at_idx" ON "excesses"("organisation_id", "created_at");
CREATE INDEX "excesses_booked_at_idx" ON "excesses"("booked_at");
CREATE INDEX "excesses_unhandled_idx" ON "excesses"("created_at") WHERE "handled_at" IS NULL;

-- Written with the entry, whichever process of whichever release books it.
CREATE FUNCTION "note_excess"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO excesses (cause, organisation_id, key_id, amount_nano, created_at)
  VALUES (NEW.cause, NEW.organisation_id, NEW.key_id, -NEW.amount_nano, NEW.created_at);
  RETURN NULL;
END $$;

CREATE TRIGGER "note_excess" AFTER INSERT ON "ledger_entries"
FOR EACH ROW WHEN (NEW.cause LIKE 'excess:%' AND NEW.key_id IS NOT NULL) EXECUTE FUNCTION "note_excess"();

-- Those that the previous release has not dealt with. It raised an alert for each.
INSERT INTO "excesses" (cause, organisation_id, key_id, amount_nano, created_at)
SELECT cause, organisation_id, key_id, -amount_nano, created_at FROM "ledger_entries" l
WHERE cause LIKE 'excess:%' AND key_id IS NOT NULL AND created_at > now() - interval '7 days'
  AND NOT EXISTS (SELECT 1 FROM "alerts" a WHERE a.cause = l.cause);

-- By how much reservations of a model at a provider have to be larger, as the requests of an organisation have shown.
CREATE TABLE "reservation_factors" (
    "provider" TEXT NOT NULL,
    "model" TEXT NOT NULL,
    "organisation_id" TEXT NOT NULL,
    "factor" DOUBLE PRECISION NOT NULL,
    "factor_since" TIMESTAMPTZ(3) NOT NULL,
    "exceeded" BIGINT NOT NULL,
    "worst" DOUBLE PRECISION NOT NULL,
    "since" TIMESTAMPTZ(3) NOT NULL,
    "last_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "reservation_factors_pkey" PRIMARY KEY ("provider","model","organisation_id")
);

CREATE INDEX "reservation_factors_last_at_idx" ON "reservation_factors"("last_at");

-- Why the service disabled a key, and from when on its costs above reservations count.
ALTER TABLE "api_keys" ADD COLUMN "blocked_reason" TEXT;
ALTER TABLE "api_keys" ADD COLUMN "excess_counts_from" TIMESTAMPTZ(3);

-- Keys that the previous release blocked and nobody has enabled since.
UPDATE "api_keys" k SET "blocked_reason" = 'excess'
WHERE disabled AND revoked_at IS NULL AND 'operator/cost control' = (
  SELECT actor_kind || '/' || actor_name FROM "audit_events" e
  WHERE e.organisation_id = k.organisation_id AND e.target_id = k.id AND e.action = 'key.updated' AND e.changes ? 'disabled'
  ORDER BY e.created_at DESC LIMIT 1);
