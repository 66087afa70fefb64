import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { newId } from '../../../shared/base/ids.ts'
import type { OverrideChange } from '../../../shared/catalog/catalog-overrides.ts'
import { type ProviderRow, providerRow } from '../../../shared/catalog/schema.ts'
import { audit, type Changes, operatorActor } from '../../../shared/io/audit.ts'
import type { Connection } from '../../../shared/io/db.ts'
import { keyPatch, newKey } from '../../../shared/keys/key-requests.ts'
import { hashSecret, newSecret, secretOf } from '../../../shared/keys/secret.ts'
import { type Command, command } from '../parse.ts'
import { changeOfKeys, testProviderKey } from '../provider-keys.ts'
import { type ApplyFile, readApplyFile } from './apply-file.ts'
import { type Lease, takeLease } from './lease.ts'
import {
  type ApplyServices,
  assertApplicable,
  type CatalogStep,
  type KeyStep,
  type OrganisationStep,
  type Plan,
  type PresetStep,
  planApply,
  type Step,
  wantedKey,
} from './plan.ts'
import { Secret } from './secret.ts'
import { SecretsOutput } from './secrets-output.ts'

const maxWaitMs = 60_000
/** The exit code where there are differences, as that of `catalog diff`. */
const differencesFound = 2

type Applying = {
  services: ApplyServices
  owner: string
  lease: Lease
  output: SecretsOutput | null
  ids: Map<string, string>
}

/** Applies the steps of a plan: the catalog in one transaction, then each organisation, key and preset in one of its own. */
async function applySteps(applying: Applying, steps: readonly Step[]): Promise<void> {
  const due = steps.filter(({ action }) => action !== 'unchanged' && action !== 'keep')
  const catalog = due.filter((step): step is CatalogStep => !ofOrganisations.has(step.kind))
  if (catalog.length > 0) await applyCatalog(applying, catalog)
  for (const step of due) {
    if (step.kind === 'organisation') await applyOrganisation(applying, step)
    else if (step.kind === 'key') await applyKey(applying, step)
    else if (step.kind === 'preset') await applyPreset(applying, step)
  }
}

const ofOrganisations: ReadonlySet<string> = new Set(['organisation', 'key', 'preset'])

/** Notes in the transaction of a step that the object is the file's, or no longer. Throws an Error if another process applies a file. */
async function note(
  { owner, lease }: Applying,
  tx: Connection,
  { address, action, kind }: Step,
  ref: string,
): Promise<void> {
  await lease.confirm(tx)
  const owner_address = { owner, address }
  if (action === 'delete') await tx.appliedObject.deleteMany({ where: owner_address })
  else
    await tx.appliedObject.upsert({
      where: { owner_address },
      create: { ...owner_address, kind, ref },
      update: { kind, ref },
    })
}

async function applyCatalog(applying: Applying, steps: readonly CatalogStep[]): Promise<void> {
  const { catalogOverrides } = applying.services
  const isStored = ({ kind, name }: CatalogStep) =>
    catalogOverrides.current.overrides.some(one => one.kind === kind && one.name === name) ||
    catalogOverrides.current.faults.some(one => one.kind === kind && one.name === name)
  const changes = steps.filter(step => step.action !== 'delete' || isStored(step)).map(step => changeOf(applying, step))
  await catalogOverrides.changeAll(changes, operatorActor, async tx => {
    for (const step of steps) await note(applying, tx, step, step.name)
  })
}

function changeOf({ services }: Applying, { kind, name, value, action }: CatalogStep): OverrideChange<unknown> {
  if (kind === 'keys') {
    const secrets = action === 'delete' ? [] : (value as Secret[]).map(secret => secret.value)
    return changeOfKeys(services, name, () => secrets) as OverrideChange<unknown>
  }
  return { kind, name, update: () => (action === 'delete' ? null : withSecrets(value)) }
}

/** A value with its secrets in the form that is sealed when it is stored. */
function withSecrets(value: unknown): unknown {
  if (value instanceof Secret) return { secret: value.value }
  if (Array.isArray(value)) return value.map(withSecrets)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, one]) => (one === undefined ? [] : [[name, withSecrets(one)]])),
  )
}

async function applyOrganisation(applying: Applying, step: OrganisationStep): Promise<void> {
  const { services, ids } = applying
  const { key, name, action } = step
  const id = step.id ?? newId('org')
  await services.db.$transaction(async tx => {
    // An organisation has a ledger and a request log, which stay: it is only no longer the file's.
    if (action === 'create') await tx.organisation.create({ data: { id, name, wallet: { create: {} } } })
    if (action === 'change') await tx.organisation.update({ where: { id }, data: { name } })
    if (action === 'create')
      await audit(tx, { organisationId: id, actor: operatorActor, action: 'organisation.created' })
    if (action === 'change') {
      const before = step.differences[0]?.before ?? null
      const changes = { name: [before, name] } satisfies Changes
      await audit(tx, { organisationId: id, actor: operatorActor, action: 'organisation.changed', changes })
    }
    await note(applying, tx, step, id)
  })
  ids.set(key, id)
}

async function applyKey(applying: Applying, step: KeyStep): Promise<void> {
  const { services, ids, output, lease } = applying
  const { keys, db } = services
  const { address, row, wanted } = step
  if (!wanted) {
    if (row && !row.revokedAt) await keys.revoke(null, row.hash, operatorActor)
    await db.$transaction(tx => note(applying, tx, step, row?.id ?? ''))
    return
  }
  const { secret, disabled, environment, name } = wanted
  const policy = policyOf(wanted)
  if (!row) {
    const given = secret?.value ?? output?.get(address) ?? newSecret(`svc_sk_${environment}_`).secret
    if (!secret) await output!.set(address, given)
    const fields = newKey.parse({ ...policy, environment, name })
    const created = await keys.create(
      ids.get(step.organisation)!,
      fields,
      operatorActor,
      (tx, { row: made }) => note(applying, tx, step, made.id),
      secretOf(given),
    )
    if (disabled) await keys.patch(null, created.row.hash, { disabled }, operatorActor)
    return
  }
  await lease.confirm(db)
  const isNew = secret !== undefined && hashSecret(secret.value) !== row.hash
  const { row: current } = isNew
    ? await keys.roll(null, row.hash, operatorActor, { given: secretOf(secret.value) })
    : { row }
  await keys.patch(null, current.hash, keyPatch.parse({ ...policy, disabled: disabled ?? false }), operatorActor)
}

/** The policy of a key as a request states it. */
function policyOf(wanted: NonNullable<KeyStep['wanted']>): Record<string, unknown> {
  const { secret: _, disabled: __, environment: ___, ...policy } = wantedKey(wanted)
  return policy
}

async function applyPreset(applying: Applying, step: PresetStep): Promise<void> {
  const { services, ids } = applying
  const { name, wanted, id } = step
  if (wanted) {
    const organisationId = ids.get(step.organisation)!
    await services.presets.save(organisationId, name, wanted, operatorActor, (tx, row) =>
      note(applying, tx, step, row.id),
    )
    return
  }
  const row = id === null ? null : await services.db.preset.findUnique({ where: { id } })
  if (row)
    await services.presets.remove(row.organisationId, row.name, operatorActor, tx => note(applying, tx, step, row.id))
  else await services.db.$transaction(tx => note(applying, tx, step, ''))
}

/** Asks the providers whether they accept the keys that are new. Throws 400 with the words of one that does not. */
async function testKeys({ catalog, config, clock, catalogOverrides }: ApplyServices, file: ApplyFile): Promise<void> {
  const providers = new Map<string, ProviderRow>(catalog.providers)
  for (const [name, provider] of Object.entries(file.providers)) {
    const row = providerRow.safeParse({ name, ...provider })
    if (row.success) providers.set(name, row.data)
  }
  for (const [name, keys] of Object.entries(file.provider_keys)) {
    const known = catalogOverrides.keys.get(name) ?? []
    for (const { value } of keys)
      if (!known.includes(value)) await testProviderKey({ catalog: { providers }, config, clock }, name, value)
  }
}

const signs = { create: '+', change: '~', delete: '-', keep: '=', unchanged: ' ' }

/** The plan as a person reads it. What is unchanged is counted. */
function describe({ steps }: Plan): string {
  const count = (action: Step['action']) => steps.filter(step => step.action === action).length
  const lines = steps
    .filter(({ action }) => action !== 'unchanged')
    .flatMap(({ action, address, differences }) => [
      `${signs[action]} ${action.padEnd(7)} ${address}`,
      ...differences.map(({ field, before, after }) =>
        action === 'create'
          ? `            ${field || 'value'}: ${after}`
          : `            ${field || 'value'}: ${before ?? 'none'} → ${after ?? 'none'}`,
      ),
    ])
  const left = count('keep')
  const total = `${count('create')} to create, ${count('change')} to change, ${count('delete')} to delete, ${count('unchanged')} unchanged`
  return [...lines, ...(left > 0 ? [`${left} no longer in the file, kept: --prune deletes them.`] : []), total].join(
    '\n',
  )
}

const presented = ({ steps }: Plan) =>
  steps.map(({ address, action, differences }) => ({ address, action, differences }))

const isDue = ({ steps }: Plan) => steps.some(({ action }) => action !== 'unchanged' && action !== 'keep')

/** The keys that a plan creates with a secret of the gateway. */
const withNewSecret = ({ steps }: Plan) =>
  steps.filter(step => step.kind === 'key' && step.wanted && !step.row && !step.wanted.secret)

const flags = z.strictObject({
  file: z.string().min(1),
  dry_run: z.boolean().default(false),
  yes: z.boolean().default(false),
  prune: z.boolean().default(false),
  skip_test: z.boolean().default(false),
  output: z.string().min(1).optional(),
})

async function runApply(services: ApplyServices, options: z.output<typeof flags>) {
  const { prune, dry_run: isDry, yes, skip_test: skipsTest, output: outputPath } = options
  const file = readApplyFile(options.file, services.config.readVariable)
  const first = await planApply(services, file, prune)
  assertApplicable(first)
  if (!isDue(first))
    return { data: { data: presented(first), applied: false }, text: `${describe(first)}\nNo changes.` }
  if (isDry || !yes) {
    const text = `${describe(first)}\nNothing was changed${isDry ? '' : ': --yes applies it'}.`
    return { data: { data: presented(first), applied: false }, text, exitCode: differencesFound }
  }
  const lease = await takeLease(services, maxWaitMs)
  try {
    await services.catalogOverrides.refresh()
    const plan = await planApply(services, file, prune)
    assertApplicable(plan)
    const [unnamed] = withNewSecret(plan)
    if (unnamed && outputPath === undefined)
      throw new GatewayError(
        'invalid_request',
        `${unnamed.address} gets a new secret: name the file for it with --output, or give the key a \`secret\`. Nothing was changed.`,
      )
    if (!skipsTest) await testKeys(services, file)
    const output = outputPath === undefined ? null : await SecretsOutput.open(outputPath)
    await applySteps({ services, owner: file.owner, lease, output, ids: new Map(plan.ids) }, plan.steps)
    const written = unnamed ? ` The secrets of new keys are in ${outputPath}.` : ''
    return { data: { data: presented(plan), applied: true }, text: `${describe(plan)}\nApplied.${written}` }
  } finally {
    await lease.end()
  }
}

export const apply: Command[] = [
  command({
    name: 'apply',
    summary:
      'Makes the catalog, provider keys, organisations, keys and presets what a file says; without --yes, shows the plan.',
    help: '-f FILE [--yes] [--dry-run] [--prune] [--skip-test] [--output SECRETS.json]',
    flags,
    operand: 'file',
    run: runApply,
  }),
]
