import { z } from 'zod'
import { serviceTiers } from '../../shared/base/service-tier.ts'
import { keyProviderPreferences } from '../../shared/catalog/provider-preferences.ts'
import { guardrailsSetting } from '../../shared/keys/guardrails.ts'
import { cacheSetting } from '../../shared/keys/key-requests.ts'
import { ownKeyModes } from '../../shared/keys/own-keys.ts'

/** Response schemas of the wallet, of feedback and of keys. */

const usd = z.number()

export const wallet = z
  .strictObject({
    object: z.literal('wallet'),
    balance_usd: usd,
    available_usd: usd,
    reserved_usd: usd.describe('Reserved for requests in progress.'),
    held_usd: usd.describe('ACH deposits that are not available yet.'),
    held_release_at: z.iso.datetime().nullable(),
  })
  .meta({ id: 'Wallet' })

export const feedback = z
  .strictObject({
    object: z.literal('feedback'),
    generation_id: z.string(),
    model: z.string(),
    provider: z.string().nullable(),
    score: z.number(),
    comment: z.string().nullable(),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: 'Feedback' })

export const budget = z
  .strictObject({
    scope: z.string().describe('`organisation`, or the id of the member whose keys are summed.'),
    limit_usd: usd,
    blocks: z.boolean().describe('Whether requests that do not fit are refused.'),
    alert_percents: z.array(z.int()),
    spent_month_usd: usd.describe('Charged to these keys in the current UTC month, as far as it is booked.'),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: 'Budget' })

export const key = z
  .strictObject({
    hash: z.string(),
    name: z.string(),
    environment: z.enum(['live', 'test']),
    mode: z.enum(['cost', 'balanced', 'quality']),
    rpm_limit: z.int().nullable(),
    tpm_limit: z.int().nullable(),
    monthly_spend_cap_usd: usd.nullable(),
    model_allowlist: z.array(z.string()).nullable(),
    scopes: z.string(),
    learning: z.boolean(),
    denied_service_tiers: z.array(z.enum(serviceTiers)).nullable(),
    own_keys: z.enum(ownKeyModes).describe('Whose provider keys its requests use.'),
    provider: keyProviderPreferences.nullable(),
    cache: cacheSetting.nullable(),
    guardrails: guardrailsSetting.nullable(),
    expires_at: z.iso.datetime().nullable(),
    prefix: z.string(),
    last4: z.string(),
    status: z.enum(['active', 'revoked', 'expired']),
    status_reason: z
      .enum(['revoked', 'disabled', 'blocked'])
      .nullable()
      .describe(
        'Of status `revoked`: revoked for good, disabled by a person, or blocked because of what its requests cost.',
      ),
    spend_month_usd: usd.describe(
      'Charged in the current UTC month, as the cap counts: requests that began and jobs that were created in it. Charges that are booked too late for a closed month are not part of it.',
    ),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
    last_used_at: z.iso.datetime().nullable(),
    previous_secret_last4: z
      .string()
      .nullable()
      .describe('The last characters of the secret that the last roll replaced, while it still works.'),
    previous_secret_valid_until: z.iso.datetime().nullable().describe('When that secret stops working.'),
  })
  .meta({ id: 'ApiKey' })
