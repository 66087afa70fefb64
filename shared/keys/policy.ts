import type { ApiKey } from '../generated/prisma/client.ts'

export const modes = ['cost', 'balanced', 'quality'] as const
export type Mode = (typeof modes)[number]
export const scopes = ['chat', 'embeddings', 'completions', '*'] as const
export type Scope = (typeof scopes)[number]

/** What a standard key may do, as one version of its row says. */
export type Policy = {
  hash: string
  version: number
  keyId: string
  organisationId: string
  environment: 'live' | 'test'
  mode: Mode
  rpmLimit: number | null
  tpmLimit: number | null
  capNano: number | null
  /** Null = all models. */
  allowlist: ReadonlySet<string> | null
  scopes: ReadonlySet<string>
  expiresAtMs: number | null
  revoked: boolean
}

/** The policy of a key's row. A limit of 0 means none (SPEC, API key). */
export function policyOf(row: ApiKey): Policy {
  return {
    hash: row.hash,
    version: row.version,
    keyId: row.id,
    organisationId: row.organisationId,
    environment: row.environment,
    mode: row.mode,
    rpmLimit: row.rpmLimit || null,
    tpmLimit: row.tpmLimit || null,
    capNano: row.monthlySpendCapNano === null ? null : Number(row.monthlySpendCapNano),
    allowlist: row.modelAllowlist.length > 0 ? new Set(row.modelAllowlist) : null,
    scopes: new Set(row.scopes),
    expiresAtMs: row.expiresAt?.getTime() ?? null,
    revoked: row.revokedAt !== null || row.disabled,
  }
}

/** Whether the key's scopes allow a route: `*` allows all, and routes without a scope of their own need it (contract §3). */
export function allowsScope(policy: Policy, needed: Scope): boolean {
  return policy.scopes.has('*') || policy.scopes.has(needed)
}
