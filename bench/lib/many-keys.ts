import { hash } from 'node:crypto'
import pg from 'pg'

// Keys whose secrets follow from their number, so that drivers know all of them without a list.
const prefix = 'svc_sk_live_'
const digits = 32

/** The secret of a key of `makeManyKeys`. */
export function secretOf(number: number): string {
  return prefix + String(number).padStart(digits, '0')
}

/** The first key of the organisations of `makeManyOrganisations`; those of `makeManyKeys` come before. */
export const firstOfOrganisations = 10_000_000

/** Puts so many live keys with all limits straight into the database; those that are there already stay. */
export async function makeManyKeys(databaseUrl: string, organisationId: string, count: number): Promise<void> {
  const db = new pg.Client({ connectionString: databaseUrl })
  await db.connect()
  try {
    await db.query(
      `INSERT INTO api_keys (id, organisation_id, hash, prefix, last4, name, environment, rpm_limit, tpm_limit,
         monthly_spend_cap_nano, model_allowlist, updated_at)
       SELECT 'key_many' || number, $1, encode(sha256(secret::bytea), 'hex'), left(secret, 16), right(secret, 4), 'Many',
         'live', 2000000000, 2000000000, 900000000000000, '{}', now()
       FROM (SELECT number, $2 || lpad(number::text, $3, '0') AS secret FROM generate_series(0, $4 - 1) AS number) AS made
       ON CONFLICT DO NOTHING`,
      [organisationId, prefix, digits, count],
    )
    const found = await db.query('SELECT 1 FROM api_keys WHERE hash = $1', [hash('sha256', secretOf(count - 1), 'hex')])
    if (found.rowCount !== 1) throw new Error('the keys in the database are not those of the driver')
  } finally {
    await db.end()
  }
}

/** Puts so many funded organisations with one live key each into the database; those that are there already stay. */
export async function makeManyOrganisations(databaseUrl: string, count: number): Promise<void> {
  const db = new pg.Client({ connectionString: databaseUrl })
  await db.connect()
  try {
    await db.query(
      `WITH made AS (
         INSERT INTO organisations (id, name, slug)
         SELECT 'org_many' || number, 'Many ' || number, 'many' || number FROM generate_series(0, $1 - 1) AS number
         ON CONFLICT DO NOTHING RETURNING id
       ), paid AS (
         INSERT INTO ledger_entries (organisation_id, kind, amount_nano, cause, method)
         SELECT id, 'deposit', 1000000000000, 'bench-' || id, 'grant' FROM made RETURNING organisation_id, amount_nano
       )
       INSERT INTO wallets (organisation_id, balance_nano, version, updated_at) SELECT organisation_id, amount_nano, 1, now() FROM paid`,
      [count],
    )
    await db.query(
      `INSERT INTO api_keys (id, organisation_id, hash, prefix, last4, name, environment, rpm_limit, tpm_limit,
         monthly_spend_cap_nano, model_allowlist, updated_at)
       SELECT 'key_org' || number, 'org_many' || number, encode(sha256(secret::bytea), 'hex'), left(secret, 16), right(secret, 4),
         'Many', 'live', 2000000000, 2000000000, 900000000000000, '{}', now()
       FROM (SELECT number, $1 || lpad(($2 + number)::text, $3, '0') AS secret FROM generate_series(0, $4 - 1) AS number) AS made
       ON CONFLICT DO NOTHING`,
      [prefix, firstOfOrganisations, digits, count],
    )
  } finally {
    await db.end()
  }
}
