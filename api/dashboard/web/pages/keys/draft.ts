import type { DashboardKey, KeyFields, Mode } from '../../../wire/keys.ts'
import { changedFields as changedOf } from '../../changed-fields.ts'

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
  /** A time as the API takes it; '' = never. */
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
    expires: key.expires_at ?? '',
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
    expires_at: draft.expires === '' ? null : draft.expires,
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

/** The fields in which a draft differs from the key it began with. */
export function changedFields(draft: Draft, key: DashboardKey): KeyFields {
  return changedOf(fieldsOf(draft), fieldsOf(draftOf(key)))
}
