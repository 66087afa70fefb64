import { hash } from 'node:crypto'
import pg from 'pg'

// Keys whose secrets follow from their number, so that drivers know all of them without a list.
const prefix = 'svc_sk_live_'
const digits = 32

/** The secret of a key of `makeManyKeys`. */
export function secretOf(number: number): string {
  return prefix + String(number).padStart(digits, '0')
}

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
