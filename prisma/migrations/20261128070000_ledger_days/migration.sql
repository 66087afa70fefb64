-- CreateTable
CREATE TABLE "ledger_days" (
    "organisation_id" TEXT NOT NULL,
    "day" DATE NOT NULL,
    "kind" "ledger_kind" NOT NULL,
    "key_id" TEXT NOT NULL,
    "entries" BIGINT NOT NULL,
    "amount_nano" BIGINT NOT NULL,

    CONSTRAINT "ledger_days_pkey" PRIMARY KEY ("organisation_id","day","kind","key_id")
);

-- Whatever is written into the ledger is summed in the same transaction, so that no writer can forget it. Rows are taken in one
-- order, after the wallets: two transactions never wait in a circle for them.
CREATE FUNCTION "sum_ledger"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO ledger_days AS d
  SELECT organisation_id, (created_at AT TIME ZONE 'UTC')::date, kind, coalesce(key_id, ''), count(*), sum(amount_nano)
  FROM added GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
  ON CONFLICT (organisation_id, day, kind, key_id) DO UPDATE SET
    entries = d.entries + excluded.entries, amount_nano = d.amount_nano + excluded.amount_nano;
  RETURN NULL;
END $$;

CREATE TRIGGER "sum_added" AFTER INSERT ON "ledger_entries" REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION "sum_ledger"();

INSERT INTO "ledger_days"
SELECT organisation_id, (created_at AT TIME ZONE 'UTC')::date, kind, coalesce(key_id, ''), count(*), sum(amount_nano)
FROM "ledger_entries" GROUP BY 1, 2, 3, 4;

-- Statements by day list what is not a charge line by line: a few entries among millions of charges, which this index does not have.
CREATE INDEX "ledger_entries_not_charges_idx" ON "ledger_entries"("organisation_id", "created_at", "id") WHERE "kind" <> 'charge';
