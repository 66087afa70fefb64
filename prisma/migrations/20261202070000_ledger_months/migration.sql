-- The month that a charge counts in, when it happened if it is dated otherwise, and the closed month that it is too late for
-- (docs/decisions/ledger-months.md). NULL for entries of the previous release, except those that are late.
ALTER TABLE "ledger_entries" ADD COLUMN "month" TEXT, ADD COLUMN "occurred_at" TIMESTAMPTZ(3), ADD COLUMN "late_from" TEXT;
CREATE INDEX "ledger_entries_late_idx" ON "ledger_entries"("organisation_id", "created_at") WHERE "late_from" IS NOT NULL;

-- The time by which months close: the one that the booking process has set for its transaction, as its clock is compared with
-- those of both stores, else PostgreSQL's. Tests replace it.
CREATE FUNCTION "ledger_now"() RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT coalesce(nullif(current_setting('headgate.now', true), '')::timestamptz, now())
$$;

-- When a UTC month such as '2026-11' closes: two days after its end.
CREATE FUNCTION "ledger_closes_at"(month text) RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT ((month || '-01')::date + interval '1 month 2 days') AT TIME ZONE 'UTC'
$$;

-- Dates every entry, whichever process of whichever release books it: in the month that it counts in, and never in a closed one.
-- A transaction that begins in the last minute before the close may end after it, so its entries are late already.
CREATE FUNCTION "date_ledger_entry"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  happened timestamptz := NEW.created_at;
  day date;
BEGIN
  IF NEW.month IS NOT NULL THEN
    day := NEW.month || '-01';
    NEW.created_at := least(
      greatest(happened, day::timestamp AT TIME ZONE 'UTC'),
      (day + interval '1 month' - interval '1 millisecond') AT TIME ZONE 'UTC');
  ELSE
    day := date_trunc('month', happened AT TIME ZONE 'UTC');
  END IF;
  IF ledger_closes_at(to_char(day, 'YYYY-MM')) <= ledger_now() + interval '1 minute' THEN
    NEW.late_from := to_char(day, 'YYYY-MM');
    NEW.created_at := ledger_now();
  END IF;
  IF NEW.created_at <> happened THEN NEW.occurred_at := happened; END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER "date_entry" BEFORE INSERT ON "ledger_entries" FOR EACH ROW EXECUTE FUNCTION "date_ledger_entry"();

-- What a key exceeds within an hour is judged by when it happened.
CREATE OR REPLACE FUNCTION "note_excess"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO excesses (cause, organisation_id, key_id, amount_nano, created_at)
  VALUES (NEW.cause, NEW.organisation_id, NEW.key_id, -NEW.amount_nano, coalesce(NEW.occurred_at, NEW.created_at));
  RETURN NULL;
END $$;
