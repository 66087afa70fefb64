import { z } from 'zod'
import { oneLine } from '../base/one-line.ts'
import { serviceTiers } from '../base/service-tier.ts'
import { storableTime } from '../base/time.ts'
import { keyProviderPreferences } from '../catalog/provider-preferences.ts'
import { guardrailsSetting } from './guardrails.ts'
import { ownKeyModes } from './own-keys.ts'
import { modes, scopes } from './policy.ts'
import { maxOverlapHours } from './replaced-secrets.ts'

const limit = z.int().min(0).max(2_147_483_647).nullish().describe('Unset, null or 0 means no limit.')

/** The longest that an answer is cached. */
const maxCacheTtlS = 30 * 86_400
/** What a key's policy says about the response cache. */
export const cacheSetting = z.strictObject({ ttl_s: z.int().min(1).max(maxCacheTtlS) })

/** The policy fields of a key, as a request body or a command passes them. */
export const keyPolicy = z.strictObject({
  name: oneLine(z.string().min(1).max(200)).optional(),
  mode: z.enum(modes).optional().describe('How `auto` weighs cost against quality.'),
  rpm_limit: limit,
  tpm_limit: limit,
  monthly_spend_cap_usd: z
    .number()
    .min(0)
    .max(1_000_000)
    .nullish()
    .describe('Hard ceiling on spend per UTC month; null = uncapped.'),
  model_allowlist: z
    .array(z.string().min(1).max(100))
    // A list that a program emptied must not become access to everything.
    .min(1, 'must name a model; null = all models')
    .max(1_000)
    .nullish()
    .describe('Model slugs; null = all models. An empty list is refused.'),
  scopes: z
    .string()
    .transform((text, context) => {
      const parsed = z.array(z.enum(scopes)).safeParse(text.split(',').map(scope => scope.trim()))
      if (parsed.success) return [...new Set(parsed.data)]
      context.addIssue({
        code: 'custom',
        message: `must be a comma-separated list of ${scopes.join(', ')}`,
        input: text,
      })
      return z.NEVER
    })
    .optional()
    .describe('Comma-separated: chat, embeddings, completions, or *.'),
  learning: z
    .boolean()
    .optional()
    .describe('Whether feedback on the requests of the organisation moves what `auto` chooses; true by default.'),
  denied_service_tiers: z
    .array(z.enum(serviceTiers))
    .max(serviceTiers.length)
    .nullish()
    .describe('The `service_tier` values that requests may not ask for; null or empty = none.'),
  provider: keyProviderPreferences
    .nullish()
    .describe('Which providers may serve the key; a request can only tighten it. Null = all.'),
  own_keys: z
    .enum(ownKeyModes)
    .optional()
    .describe(
      'Whose provider keys its requests use: `own` = only those that the organisation has stored; `own_then_shared` = these first, and those of the service where they are refused; `shared` (the default) = those of the service. Test keys use none.',
    ),
  cache: cacheSetting
    .nullish()
    .describe('Whether equal requests are answered from the cache, and for how many seconds; null = they are not.'),
  guardrails: guardrailsSetting
    .nullish()
    .describe('What the texts of its requests and their answers are checked for; null = nothing.'),
  expires_at: storableTime.nullish().describe('Null = never.'),
})

/** The body of a request that creates a key. */
export const newKey = keyPolicy
  .extend({
    environment: z.enum(['live', 'test']).default('live').describe('Test keys are answered by the sandbox.'),
    expires_in_days: z.int().min(1).max(36_500).nullish().describe('In place of `expires_at`.'),
  })
  .refine(({ expires_at, expires_in_days }) => !expires_at || !expires_in_days, {
    path: ['expires_in_days'],
    message: 'cannot be given together with expires_at',
  })
  .meta({ id: 'CreateKeyRequest' })

/** The body of a request that changes a key. */
export const keyPatch = keyPolicy
  .extend({ disabled: z.boolean().optional().describe('Whether the key is refused until it is enabled again.') })
  .meta({ id: 'UpdateKeyRequest' })

/** For how long a roll keeps the old secret working. */
export const overlapHours = z.int().min(0).max(maxOverlapHours)

/** The body of a request that rolls a key. */
export const keyRoll = z
  .strictObject({
    overlap_hours: overlapHours
      .optional()
      .describe('How long the old secret keeps working beside the new one. Unset or 0: it stops working immediately.'),
  })
  .meta({ id: 'RollKeyRequest' })

export type KeyPolicy = z.output<typeof keyPolicy>
