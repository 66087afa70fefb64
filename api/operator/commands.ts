import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { newId } from '../../shared/base/ids.ts'
import { formatCents, nanoFromUsd, usdFromNano } from '../../shared/base/money.ts'
import { audit, operatorActor } from '../../shared/io/audit.ts'
import {
  type BudgetRecord,
  budgetSettings,
  deleteBudget,
  listBudgets,
  setBudget,
  wholeOrganisation,
} from '../../shared/keys/budgets.ts'
import { newKey, overlapHours } from '../../shared/keys/key-requests.ts'
import type { KeyRecord } from '../../shared/keys/keys.ts'
import type { Platform } from '../../shared/platform.ts'
import { updateResponseSettings } from '../../shared/responses/response-settings.ts'
import { checkLedger, type Invariant } from '../../shared/wallet/check.ts'
import { presentKey, presentKeys } from '../routes/present-key.ts'
import { adjustmentId, adjustments } from './adjustments.ts'
import { apply } from './apply/apply.ts'
import { autoTopUps } from './auto-top-ups.ts'
import { cacheCommands } from './cache-commands.ts'
import { catalogCommands } from './catalog-commands.ts'
import { catalogDiff } from './catalog-diff.ts'
import { addCredit } from './credit.ts'
import { doctor } from './doctor.ts'
import { find } from './find.ts'
import { findOrganisation, number, org } from './flags.ts'
import { imports } from './import/litellm.ts'
import { logExports } from './log-exports.ts'
import { ownKeys } from './own-keys.ts'
import { type Command, command, type EnvironmentCommand } from './parse.ts'
import { providerKeys } from './provider-keys.ts'
import { prune } from './prune.ts'
import { secrets } from './secrets.ts'
import { suspensions } from './suspensions.ts'
import { users } from './users.ts'
import { webhooks } from './webhooks.ts'

const hash = z.string().regex(/^[0-9a-f]{64}$/, 'must be the key’s hash (64 hex digits)')
const maxHoldDays = 365
const maxListedKeys = 10_000

const describe = (record: KeyRecord) =>
  `${record.hash}  ${record.prefix}…${record.last4}  ${record.environment}  ${record.status_reason ?? record.status}  ${record.name}`

const organisations: Command[] = [
  command({
    name: 'org create',
    summary: 'Creates an organisation and prints its ID.',
    help: '--name N',
    flags: z.strictObject({ name: z.string().min(1).max(200) }),
    async run({ db }, { name }) {
      const row = await db.$transaction(async tx => {
        const created = await tx.organisation.create({ data: { id: newId('org'), name, wallet: { create: {} } } })
        await audit(tx, { organisationId: created.id, actor: operatorActor, action: 'organisation.created' })
        return created
      })
      return { data: { id: row.id, name, created_at: row.createdAt.toISOString() }, text: row.id }
    },
  }),
  command({
    name: 'org list',
    summary: 'Lists all organisations with their balances.',
    help: '',
    flags: z.strictObject({}),
    async run(services) {
      const rows = await services.db.organisation.findMany({ orderBy: { createdAt: 'asc' } })
      const data = []
      for (const { id, name, createdAt } of rows) {
        const { balanceNano, availableNano } = await services.wallets.view(id)
        data.push({
          id,
          name,
          created_at: createdAt.toISOString(),
          balance_usd: usdFromNano(balanceNano),
          available_usd: usdFromNano(availableNano),
        })
      }
      return {
        data: { data },
        text:
          data.map(row => `${row.id}  ${formatCents(nanoFromUsd(row.balance_usd))}  ${row.name}`).join('\n') ||
          'No organisations yet.',
      }
    },
  }),
  command({
    name: 'org responses',
    summary: 'Shows or sets whether the responses of an organisation are stored, and for how long.',
    help: '--org ID [--keep on|off] [--retention-days 30]',
    flags: z.strictObject({
      org,
      keep: z.enum(['on', 'off']).optional(),
      retention_days: number.pipe(z.int().min(1).max(365)).optional(),
    }),
    async run(services, { org, keep, retention_days }) {
      await findOrganisation(services, org)
      const fields = await updateResponseSettings(
        services,
        org,
        { keep_responses: keep && keep === 'on', response_retention_days: retention_days },
        operatorActor,
      )
      const days = fields.response_retention_days ?? services.config.responseRetentionDays
      const text = `responses are ${fields.keep_responses ? `kept for ${days} days` : 'not kept'}`
      return { data: { org, ...fields }, text }
    },
  }),
  command({
    name: 'credit add',
    summary: 'Adds credits to an organisation.',
    help: '--org ID --usd 25 [--method grant|card|ach] [--hold-days 5] [--id ID]',
    flags: z.strictObject({
      org,
      usd: z
        .string()
        .regex(/^\d{1,6}(\.\d{1,9})?$/, 'must be an amount in USD')
        .refine(text => Number(text) > 0, 'must be more than 0'),
      // Payments name their method; what an operator adds without one was not paid through a provider.
      method: z.enum(['card', 'ach', 'grant']).default('grant'),
      hold_days: number.pipe(z.number().max(maxHoldDays)).optional(),
      id: adjustmentId.optional(),
    }),
    async run(services, { org, usd, method, hold_days, id }) {
      await findOrganisation(services, org)
      const credit = { id, organisationId: org, amountNano: nanoFromUsd(usd), method, holdDays: hold_days }
      await addCredit(services, credit, operatorActor)
      const view = await services.wallets.view(org)
      const data = {
        org,
        balance_usd: usdFromNano(view.balanceNano),
        available_usd: usdFromNano(view.availableNano),
        held_usd: usdFromNano(view.heldNano),
        held_release_at: view.heldReleaseAt?.toISOString() ?? null,
      }
      return { data, text: `balance ${formatCents(view.balanceNano)}, available ${formatCents(view.availableNano)}` }
    },
  }),
]

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

const keys: Command[] = [
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

const budgets: Command[] = [
  command({
    name: 'budget set',
    summary: 'Bounds what an organisation, or the keys of a member, may spend per UTC month.',
    help: '--org ID --limit-usd N [--member ID] [--blocks true|false] [--alert-percents 50,80,100]',
    flags: z.strictObject({
      org,
      limit_usd: number.pipe(budgetSettings.shape.limit_usd),
      member: z.string().optional(),
      blocks: z
        .enum(['true', 'false'])
        .default('true')
        .transform(text => text === 'true'),
      alert_percents: z
        .string()
        .default('50,80,100')
        .transform(text => text.split(',').filter(Boolean).map(Number))
        .pipe(z.array(z.int().min(1).max(1_000)).max(10)),
    }),
    async run(services, { org, member = wholeOrganisation, ...settings }) {
      await findOrganisation(services, org)
      const data = await setBudget(services, org, member, settings, operatorActor)
      return { data: { data }, text: describeBudget(data) }
    },
  }),
  command({
    name: 'budget list',
    summary: 'Lists the budgets of an organisation, with what was spent of them this month.',
    help: '--org ID',
    flags: z.strictObject({ org }),
    async run(services, { org }) {
      await findOrganisation(services, org)
      const data = await listBudgets(services, org)
      return { data: { data }, text: data.map(describeBudget).join('\n') || 'No budgets yet.' }
    },
  }),
  command({
    name: 'budget remove',
    summary: 'Removes the budget of an organisation, or of a member.',
    help: '--org ID [--member ID]',
    flags: z.strictObject({ org, member: z.string().optional() }),
    async run(services, { org, member = wholeOrganisation }) {
      await findOrganisation(services, org)
      await deleteBudget(services, org, member, operatorActor)
      return { data: { scope: member, deleted: true }, text: 'removed' }
    },
  }),
]

function describeBudget({ scope, limit_usd, blocks, spent_month_usd }: BudgetRecord): string {
  return `${scope}  ${spent_month_usd.toFixed(2)} of ${limit_usd.toFixed(2)} USD this month${blocks ? '' : ', alerts only'}`
}

/** A running gateway moves money between the reads of a check: only a violation that a second check confirms counts. */
const maxChecks = 4
const checkIntervalMs = 500

async function confirmLedgerCheck({ db, redis, clock }: Platform): Promise<Invariant[]> {
  for (let attempt = 1; ; attempt++) {
    const invariants = await checkLedger(db, redis, clock.now())
    if (attempt === maxChecks || invariants.every(({ breaches }) => breaches.length === 0)) return invariants
    await sleep(checkIntervalMs)
  }
}

const maintenance: Command[] = [
  command({
    name: 'ledger check',
    summary: 'Checks that balances, ledger, request log and Redis agree; exits with 1 if they do not.',
    help: '',
    flags: z.strictObject({}),
    async run(services) {
      const invariants = await confirmLedgerCheck(services)
      const ok = invariants.every(({ breaches }) => breaches.length === 0)
      const lines = invariants.flatMap(({ name, checked, breaches }) => [
        `${breaches.length === 0 ? 'ok    ' : 'BREACH'} ${name} (${checked} checked)`,
        ...breaches.map(breach => `         ${breach}`),
      ])
      return { data: { ok, invariants }, text: lines.join('\n'), exitCode: ok ? 0 : 1 }
    },
  }),
  command({
    name: 'models list',
    summary: 'Lists all models with their providers; those without an API key are in parentheses.',
    help: '',
    flags: z.strictObject({}),
    async run({ catalog, upstreams }) {
      const data = [...catalog.models.values()].map(model => ({
        id: model.id,
        type: model.type,
        disabled: model.disabled,
        providers: model.providers.map(({ provider }) => ({
          provider,
          configured: upstreams.isConfigured(provider, 'live'),
        })),
        expires_on: model.expires_on,
      }))
      const text = data.map(
        ({ id, type, disabled, providers }) =>
          `${type.padEnd(14)} ${id}${disabled ? ' (disabled)' : ''}  ${providers.map(({ provider, configured }) => (configured ? provider : `(${provider})`)).join(' ')}`,
      )
      return { data: { data }, text: text.join('\n') }
    },
  }),
  command({
    name: 'models check',
    summary:
      'Counts models that no configured provider serves or that are past their end; exits with 1 for the latter.',
    help: '',
    flags: z.strictObject({}),
    async run({ catalog, upstreams, clock }) {
      const today = new Date(clock.now()).toISOString().slice(0, 10)
      const rows = [...catalog.models.values()].filter(({ disabled }) => !disabled)
      const expired = rows.filter(({ expires_on }) => expires_on !== null && expires_on <= today).map(({ id }) => id)
      const unserved = rows.filter(model => upstreams.targets(model, 'live').length === 0).map(({ id }) => id)
      const data = { models: rows.length, expired, unserved }
      const text = `${rows.length} models, ${unserved.length} without a configured provider, ${expired.length} past their end${expired.length > 0 ? `: ${expired.join(', ')}` : ''}`
      return { data, text, exitCode: expired.length > 0 ? 1 : 0 }
    },
  }),
]

export const commands: readonly Command[] = [
  ...organisations,
  ...adjustments,
  ...autoTopUps,
  ...keys,
  ...budgets,
  ...users,
  ...suspensions,
  ...find,
  ...maintenance,
  ...prune,
  ...cacheCommands,
  ...catalogCommands,
  ...catalogDiff,
  ...providerKeys,
  ...apply,
  ...imports,
  ...webhooks,
  ...ownKeys,
  ...logExports,
  ...secrets,
]

export const environmentCommands: readonly EnvironmentCommand[] = [doctor]
