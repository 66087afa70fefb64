import type { DashboardKey, KeyFields, Mode } from '../../../wire/keys.ts'

/** A key's policy as form values. */
export type Draft = {
  name: string
  mode: Mode
  /** '' = no limit. */
  rpmLimit: number | string
  tpmLimit: number | string
  capUsd: number | string
  /** Null = all models. */
  models: string[] | null
  /** Null = all endpoints. */
  scopes: string[] | null
  learning: boolean
  deniedTiers: string[]
  /** '' = answers are not cached. */
  cacheTtlS: number | string
  /** What its texts are checked for; null = nothing. */
  guardrails: DashboardKey['guardrails']
  /** Which providers may serve the key; null = all. */
  provider: DashboardKey['provider']
  /** Whose provider keys its requests use. */
  ownKeys: DashboardKey['own_keys']
  /** A `datetime-local` value in the browser's time zone; '' = never. */
  expires: string
}

export const emptyDraft: Draft = {
  name: '',
  mode: 'balanced',
  rpmLimit: '',
  tpmLimit: '',
  capUsd: '',
  models: null,
  scopes: null,
  learning: true,
  deniedTiers: [],
  cacheTtlS: '',
  guardrails: null,
  provider: null,
  ownKeys: 'shared',
  expires: '',
}

export function draftOf(key: DashboardKey): Draft {
  return {
    name: key.name,
    mode: key.mode,
    rpmLimit: key.rpm_limit ?? '',
    tpmLimit: key.tpm_limit ?? '',
    capUsd: key.monthly_spend_cap_usd ?? '',
    models: key.model_allowlist,
    scopes: key.scopes.split(',').includes('*') ? null : key.scopes.split(','),
    learning: key.learning,
    deniedTiers: key.denied_service_tiers ?? [],
    cacheTtlS: key.cache?.ttl_s ?? '',
    guardrails: key.guardrails,
    provider: key.provider,
    ownKeys: key.own_keys,
    expires: key.expires_at === null ? '' : localTime(new Date(key.expires_at)),
  }
}

/** A draft as the API takes it. */
export function fieldsOf(draft: Draft): KeyFields {
  const limit = (value: number | string) => (value === '' ? null : Number(value))
  const name = draft.name.trim()
  return {
    ...(name !== '' && { name }),
    mode: draft.mode,
    rpm_limit: limit(draft.rpmLimit),
    tpm_limit: limit(draft.tpmLimit),
    monthly_spend_cap_usd: limit(draft.capUsd),
    model_allowlist: draft.models,
    scopes: draft.scopes?.join(',') ?? '*',
    learning: draft.learning,
    denied_service_tiers:
      draft.deniedTiers.length === 0 ? null : (draft.deniedTiers as NonNullable<KeyFields['denied_service_tiers']>),
    cache: draft.cacheTtlS === '' ? null : { ttl_s: Number(draft.cacheTtlS) },
    guardrails: draft.guardrails,
    provider: draft.provider,
    own_keys: draft.ownKeys,
    expires_at: draft.expires === '' ? null : utcTime(draft.expires),
  }
}

/** What a draft still lacks, a sentence per list of which nothing is chosen: an empty list never means all. */
export function missingChoices({ models, scopes, provider }: Draft): {
  models?: string
  scopes?: string
  providers?: string
} {
  const isEmpty = (list: readonly string[] | null | undefined) => list?.length === 0
  return {
    ...(isEmpty(models) && { models: 'Choose at least one model, or “All models”.' }),
    ...(isEmpty(scopes) && { scopes: 'Choose at least one endpoint, or “All endpoints”.' }),
    ...(isEmpty(provider?.only) && { providers: 'Name at least one provider, or choose “All providers”.' }),
  }
}

export const isComplete = (draft: Draft) => Object.keys(missingChoices(draft)).length === 0

/** A `datetime-local` value as the API takes it. An invalid date (the year 20261) stays unchanged, so that the API rejects it. */
function utcTime(local: string): string {
  const moment = new Date(local)
  return Number.isNaN(moment.getTime()) ? local : moment.toISOString()
}

/** The fields in which a draft differs from the key it began with, so that concurrent changes of others are kept. */
export function changedFields(draft: Draft, key: DashboardKey): KeyFields {
  const before: Record<string, unknown> = fieldsOf(draftOf(key))
  const changed = Object.entries(fieldsOf(draft)).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]),
  )
  return Object.fromEntries(changed)
}

/** Formats a time as a `datetime-local` value. */
export function localTime(moment: Date): string {
  return new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}
