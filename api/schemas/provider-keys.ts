import { z } from 'zod'
import { cloudResource } from '../../shared/providers/provider-keys.ts'

/** An own provider key, as every route shows it. */
const providerKey = z
  .strictObject({
    id: z.string(),
    provider: z.string(),
    name: z.string(),
    enabled: z.boolean(),
    models: z.array(z.string()).nullable(),
    key_ids: z.array(z.string()).nullable(),
    resource: cloudResource.nullable().describe('Of a key for Azure; null for other providers.'),
    last4: z.string().describe('The end of the secret.'),
    test: z
      .strictObject({
        outcome: z.enum(['accepted', 'failed', 'unknown']).describe('`unknown`: no free request tells.'),
        reason: z.string().nullable().describe('What the provider answered.'),
        tested_at: z.iso.datetime(),
      })
      .nullable()
      .describe('What the provider said when the key was last tested.'),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: 'ProviderKey' })

export const providerKeyAnswer = z.strictObject({ data: providerKey }).meta({ id: 'ProviderKeyResponse' })
export const providerKeyList = z
  .strictObject({ object: z.literal('list'), data: z.array(providerKey) })
  .meta({ id: 'ProviderKeyList' })
export const deletedProviderKey = z
  .strictObject({ data: z.strictObject({ id: z.string(), deleted: z.literal(true) }) })
  .meta({ id: 'DeletedProviderKey' })
