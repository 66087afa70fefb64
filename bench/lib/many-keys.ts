import { hash } from 'node:crypto'
import pg from 'pg'

// Keys whose secrets follow from their number, so that drivers know all of them without a list.
const prefix = 'svc_sk_live_'
const digits = 32

/** The first key of the organisations of `makeManyOrganisations`; those of `makeManyKeys` come before. */
export const firstOfOrganisations = 10_000_000

/** The secret of a key of `makeManyKeys`. */
export function secretOf(number: number): string {
  return prefix + String(number).padStart(digits, '0')
}

/** Puts so many live keys with all limits straight into the database; those that are there already stay. */
export function makeManyKeys(databaseUrl: string, organisationId: string, count: number): Promise<void> {
  return withDatabase(databaseUrl, db => insertKeys(db, { first: 0, count, organisationId }))
}

/** Puts so many funded organisations with one live key each into the database; those that are there already stay. */
export function makeManyOrganisations(databaseUrl: string, count: number): Promise<void> {
  return withDatabase(databaseUrl, async db => {
    await db.query(
      `WITH made AS (
         INSERT INTO organisations (id, name, slug)
         SELECT $1 || number, 'Many ' || number, 'many' || number FROM generate_series(0, $2 - 1) AS number
         ON CONFLICT DO NOTHING RETURNING id
       ), paid AS (
         INSERT INTO ledger_entries (organisation_id, kind, amount_nano, cause, method)
         SELECT id, 'deposit', 1000000000000, 'bench-' || id, 'grant' FROM made RETURNING organisation_id, amount_nano
       )
       INSERT INTO wallets (organisation_id, balance_nano, version, updated_at) SELECT organisation_id, amount_nano, 1, now() FROM paid`,
      [manyOrganisations, count],
    )
    await insertKeys(db, { first: firstOfOrganisations, count, organisationId: null })
  })
}

const manyOrganisations = 'org_many'

/** Inserts keys by number, from `first` on; without an organisation each has its own of `makeManyOrganisations`. */
async function insertKeys(
  db: pg.Client,
  { first, count, organisationId }: { first: number; count: number; organisationId: string | null },
): Promise<void> {
  await db.query(
    `INSERT INTO api_keys (id, organisation_id, hash, prefix, last4, name, environment, rpm_limit, tpm_limit,
       monthly_spend_cap_nano, model_allowlist, updated_at)
     SELECT 'key_many' || number, coalesce($1, $2 || number - $3), encode(sha256(secret::bytea), 'hex'), left(secret, 16),
       right(secret, 4), 'Many', 'live', 2000000000, 2000000000, 900000000000000, '{}', now()
     FROM (
       SELECT number, $4 || lpad(number::text, $5, '0') AS secret FROM generate_series($3::int, $3 + $6 - 1) AS number
     ) AS made
     ON CONFLICT DO NOTHING`,
    [organisationId, manyOrganisations, first, prefix, digits, count],
  )
  const last = hash('sha256', secretOf(first + count - 1), 'hex')
  const found = await db.query('SELECT 1 FROM api_keys WHERE hash = $1', [last])
  if (found.rowCount !== 1) throw new Error('the keys in the database are not those of the driver')
}

async function withDatabase(databaseUrl: string, work: (db: pg.Client) => Promise<void>): Promise<void> {
  const db = new pg.Client({ connectionString: databaseUrl })
  await db.connect()
  try {
    await work(db)
  } finally {
    await db.end()
  }
}
