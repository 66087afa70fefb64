import { z } from 'zod'
import { operatorActor } from '../../shared/io/audit.ts'
import { newKey, overlapHours } from '../../shared/keys/key-requests.ts'
import type { KeyRecord } from '../../shared/keys/keys.ts'
import { presentKey, presentKeys } from '../routes/present-key.ts'
import { findOrganisation, number, org } from './flags.ts'
import { type Command, command } from './parse.ts'

const hash = z.string().regex(/^[0-9a-f]{64}$/, 'must be the key’s hash (64 hex digits)')
const maxListedKeys = 10_000

const describe = (record: KeyRecord) =>
  `${record.hash}  ${record.prefix}…${record.last4}  ${record.environment}  ${record.status_reason ?? record.status}  ${record.name}`

const { name, mode, scopes, ...nullable } = newKey.shape
/** A policy field without the value that means "unset": flags are omitted instead. */
const set = <T extends z.ZodType>(field: z.ZodOptional<z.ZodNullable<T>>) => field.unwrap().unwrap()
const slugs = z.string().transform(text =>
  text
    .split(',')
    .map(slug => slug.trim())
    .filter(Boolean),
)

/** A flag that is JSON. */
const json = z.string().transform((text, context) => {
  try {
    return JSON.parse(text) as unknown
  } catch {
    context.addIssue({ code: 'custom', message: 'must be JSON', input: text })
    return z.NEVER
  }
})

const keyFlags = z.strictObject({
  org,
  env: z.enum(['live', 'test']),
  name,
  mode,
  rpm_limit: number.pipe(set(nullable.rpm_limit)).optional(),
  tpm_limit: number.pipe(set(nullable.tpm_limit)).optional(),
  monthly_spend_cap_usd: number.pipe(set(nullable.monthly_spend_cap_usd)).optional(),
  model_allowlist: slugs.pipe(set(nullable.model_allowlist)).optional(),
  scopes,
  learning: z
    .enum(['true', 'false'])
    .transform(text => text === 'true')
    .optional(),
  denied_service_tiers: slugs.pipe(set(nullable.denied_service_tiers)).optional(),
  provider: json.pipe(set(nullable.provider)).optional(),
  own_keys: nullable.own_keys,
  cache: json.pipe(set(nullable.cache)).optional(),
  guardrails: json.pipe(set(nullable.guardrails)).optional(),
  expires_in_days: number.pipe(set(nullable.expires_in_days)).optional(),
})

export const keys: Command[] = [
  command({
    name: 'key create',
    summary: 'Creates an API key and prints its secret, this once.',
    help: '--org ID --env live|test [--name N] [--mode M] [--rpm-limit N] [--tpm-limit N] [--monthly-spend-cap-usd N] [--model-allowlist a,b] [--scopes chat] [--learning true|false] [--denied-service-tiers flex,priority] [--provider JSON] [--cache JSON] [--guardrails JSON] [--own-keys own|own_then_shared|shared] [--expires-in-days N]',
    flags: keyFlags,
    async run(services, { org, env, ...policy }) {
      await findOrganisation(services, org)
      const { row, secret } = await services.keys.create(org, { ...policy, environment: env }, operatorActor)
      return { data: { data: await presentKey(services, row), key: secret }, text: secret }
    },
  }),
  command({
    name: 'key list',
    summary: 'Lists the API keys of an organisation, revoked ones too.',
    help: '--org ID',
    flags: z.strictObject({ org }),
    async run(services, { org }) {
      await findOrganisation(services, org)
      const data = await presentKeys(
        services,
        await services.keys.list(org, { limit: maxListedKeys, includeRevoked: true }),
      )
      return { data: { data }, text: data.map(describe).join('\n') || 'No keys yet.' }
    },
  }),
  command({
    name: 'key revoke',
    summary: 'Revokes an API key for good.',
    help: '--hash H',
    flags: z.strictObject({ hash }),
    async run(services, { hash }) {
      const data = await presentKey(services, await services.keys.revoke(null, hash, operatorActor))
      return { data: { data }, text: describe(data) }
    },
  }),
  command({
    name: 'key roll',
    summary: 'Gives an API key a new secret and prints it, this once; the key keeps its policy and history.',
    help: '--hash H [--overlap-hours N]',
    flags: z.strictObject({ hash, overlap_hours: number.pipe(overlapHours).optional() }),
    async run(services, { hash, overlap_hours: hours }) {
      const { row, secret } = await services.keys.roll(null, hash, operatorActor, { overlapHours: hours })
      return { data: { data: await presentKey(services, row), key: secret }, text: secret }
    },
  }),
  command({
    name: 'provisioning-key create',
    summary: 'Creates a key that manages the API keys of an organisation over HTTP, and prints its secret.',
    help: '--org ID',
    flags: z.strictObject({ org }),
    async run(services, { org }) {
      await findOrganisation(services, org)
      const { secret, ...data } = await services.keys.createProvisioning(org, operatorActor)
      return { data: { data, key: secret }, text: secret }
    },
  }),
  command({
    name: 'provisioning-key revoke',
    summary: 'Revokes the provisioning keys of an organisation, or one of them.',
    help: '--org ID [--id ID]',
    flags: z.strictObject({ org, id: z.string().optional() }),
    async run(services, { org, id }) {
      await findOrganisation(services, org)
      const revoked = await services.keys.revokeProvisioning(org, operatorActor, id)
      return { data: { org, revoked }, text: `${revoked} revoked` }
    },
  }),
]
