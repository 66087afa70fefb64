import { GatewayError } from '../../../shared/base/errors.ts'
import { isObject } from '../../../shared/base/is-object.ts'
import type { OverrideKind } from '../../../shared/catalog/overrides.ts'
import { modelRow } from '../../../shared/catalog/schema.ts'
import type { ApiKey, AppliedObject } from '../../../shared/generated/prisma/client.ts'
import { defaultSettings, settings } from '../../../shared/keys/keys.ts'
import { hashSecret } from '../../../shared/keys/secret.ts'
import type { Services } from '../../../shared/open-services.ts'
import type { PresetConfig } from '../../../shared/presets/preset-config.ts'
import type { ApplyFile, ApplyKey } from './apply-file.ts'
import { Secret } from './secret.ts'

export type ApplyServices = Pick<
  Services,
  'db' | 'catalog' | 'catalogOverrides' | 'config' | 'clock' | 'monotonic' | 'keys' | 'presets'
>

/** What is done with an object of the file, or of the ones that an earlier version of the file made. */
type Action = 'create' | 'change' | 'delete' | 'keep' | 'unchanged'
/** A field that differs, as it is shown: secrets by their end. */
type Difference = { field: string; before: string | null; after: string | null }
type Common = { address: string; action: Action; differences: Difference[] }

export type CatalogStep = Common & { kind: OverrideKind; name: string; value: unknown }
export type OrganisationStep = Common & { kind: 'organisation'; key: string; name: string; id: string | null }
export type KeyStep = Common & {
  kind: 'key'
  organisation: string
  wanted: ApplyKey | null
  /** The key that there is. */
  row: ApiKey | null
}
export type PresetStep = Common & {
  kind: 'preset'
  organisation: string
  name: string
  wanted: PresetConfig | null
  id: string | null
}
export type Step = CatalogStep | OrganisationStep | KeyStep | PresetStep

/** The steps from what is to what the file says, and why it cannot be applied. `ids`: of the file's organisations. */
export type Plan = { steps: Step[]; conflicts: string[]; ids: ReadonlyMap<string, string> }

type Owned = ReadonlyMap<string, AppliedObject>
type Planning = {
  services: ApplyServices
  file: ApplyFile
  /** What this file's owner has made, by its place. */
  owned: Owned
  /** The owners of everything that was made by files, by kind and reference. */
  owners: ReadonlyMap<string, string>
  conflicts: string[]
}

/** Compares a file with what there is. Reads only. `prune`: what is no longer in the file is deleted. */
export async function planApply(services: ApplyServices, file: ApplyFile, prune: boolean): Promise<Plan> {
  const rows = await services.db.appliedObject.findMany({ take: maxObjects })
  const owned = new Map(rows.filter(({ owner }) => owner === file.owner).map(row => [row.address, row]))
  const owners = new Map(rows.map(({ kind, ref, owner }) => [`${kind} ${ref}`, owner]))
  const planning = { services, file, owned, owners, conflicts: [] }
  const catalog = planCatalog(planning)
  const { steps, ids } = await planOrganisations(planning)
  const named = new Set([...catalog, ...steps].map(({ address }) => address))
  const left = await planLeft(planning, named, prune)
  return { steps: [...catalog, ...steps, ...left], conflicts: planning.conflicts, ids }
}

const maxObjects = 50_000

function planCatalog(planning: Planning): CatalogStep[] {
  const { file } = planning
  const of = (kind: OverrideKind, section: string, values: Record<string, unknown>) =>
    Object.entries(values).map(([name, value]) => planOverride(planning, kind, `${section}.${name}`, name, value))
  const models = Object.entries(file.models)
  const added = models.flatMap(([id, model]) => ('providers' in model ? [[id, rowOf(id, model)] as const] : []))
  const changed = models.filter(([, model]) => !('providers' in model))
  const aliases = Object.entries(file.aliases).map(
    ([alias, target]) =>
      [alias.toLowerCase(), typeof target === 'string' ? { model: target } : { arms: target }] as const,
  )
  return [
    ...of('provider', 'providers', file.providers),
    ...of('row', 'models', Object.fromEntries(added)),
    ...of('model', 'models', Object.fromEntries(changed)),
    ...of('alias', 'aliases', Object.fromEntries(aliases)),
    ...of('keys', 'provider_keys', file.provider_keys),
  ]
}

/** The row of the catalog for a model that the file adds. */
function rowOf(id: string, model: ApplyFile['models'][string]): unknown {
  const { owned_by: owner, name, providers = [], ...rest } = model as Record<string, unknown> & { providers?: object[] }
  const first = (providers[0] as { provider?: string } | undefined)?.provider
  return { ...rest, id, name: name ?? id, owned_by: owner ?? first, providers }
}

function planOverride(
  planning: Planning,
  kind: OverrideKind,
  address: string,
  name: string,
  value: unknown,
): CatalogStep {
  const { catalogOverrides } = planning.services
  const stored = catalogOverrides.current.overrides.find(one => one.kind === kind && one.name === name)
  const fault = catalogOverrides.current.faults.find(one => one.kind === kind && one.name === name)
  const wanted = kind === 'row' ? checkedRow(planning, address, value) : value
  const common = { address, kind, name, value: wanted }
  const before = planning.owned.get(address)
  if (before && before.kind !== kind)
    planning.conflicts.push(
      `${address}: a model that the file adds cannot become a change of one, nor the other way. Take it out of the file, apply with --prune, and add it then.`,
    )
  if (!stored && !fault) return { ...common, action: 'create', differences: differencesBetween(null, wanted) }
  if (!isOwnedHere(planning, address, kind, name))
    planning.conflicts.push(foreign(planning, address, kind, name, `is already changed at run time`))
  // The keys themselves are compared, not what describes them.
  const is = kind === 'keys' ? catalogOverrides.keys.get(name)?.map(key => new Secret(key)) : stored?.value
  const differences = differencesBetween(is ?? null, wanted, kind === 'row' || kind === 'model')
  return { ...common, action: differences.length > 0 ? 'change' : 'unchanged', differences }
}

/** A row with the defaults of its schema. Headers are checked already, and may be secrets. */
function checkedRow({ conflicts }: Planning, address: string, value: unknown): unknown {
  const row = value as { providers: { headers?: object }[] }
  const plain = { ...row, providers: row.providers.map(({ headers: _, ...offer }) => offer) }
  const parsed = modelRow.safeParse(plain)
  if (!parsed.success) {
    conflicts.push(...parsed.error.issues.map(({ path, message }) => `${address}.${path.join('.')}: ${message}`))
    return value
  }
  const providers = parsed.data.providers.map((offer, index) => {
    const { headers } = row.providers[index]!
    return headers ? { ...offer, headers } : offer
  })
  return { ...parsed.data, providers }
}

function isOwnedHere({ owned }: Planning, address: string, kind: string, ref: string): boolean {
  const row = owned.get(address)
  return row !== undefined && row.kind === kind && row.ref === ref
}

function foreign({ owners }: Planning, address: string, kind: string, ref: string, what: string): string {
  const owner = owners.get(`${kind} ${ref}`)
  return owner === undefined
    ? `${address}: it ${what}, and not by a file. It is left as it is: remove it first, or take it out of the file.`
    : `${address}: it belongs to the file of the owner "${owner}". Only that one can change it.`
}

async function planOrganisations(planning: Planning): Promise<{ steps: Step[]; ids: Map<string, string> }> {
  const { services, file, owned, conflicts } = planning
  const ids = new Map<string, string>()
  const steps: Step[] = []
  for (const [key, wanted] of Object.entries(file.organisations)) {
    const address = `organisations.${key}`
    const id = wanted.id ?? owned.get(address)?.ref ?? null
    const row = id === null ? null : await services.db.organisation.findUnique({ where: { id } })
    if (row) ids.set(key, row.id)
    if (wanted.id !== undefined && !row) conflicts.push(`${address}.id: there is no organisation ${wanted.id}.`)
    if (wanted.name !== undefined) {
      const differences = differencesBetween(row && { name: row.name }, { name: wanted.name })
      const action = row ? (differences.length > 0 ? 'change' : 'unchanged') : 'create'
      steps.push({ address, kind: 'organisation', key, name: wanted.name, id, action, differences })
    }
    for (const [name, policy] of Object.entries(wanted.keys))
      steps.push(await planKey(planning, { organisation: key, id: row?.id ?? null }, name, policy))
    for (const [name, config] of Object.entries(wanted.presets))
      steps.push(await planPreset(planning, { organisation: key, id: row?.id ?? null }, name, config))
  }
  return { steps, ids }
}

type Place = { organisation: string; id: string | null }

async function planKey(planning: Planning, place: Place, name: string, wanted: ApplyKey): Promise<KeyStep> {
  const { services, owned, conflicts } = planning
  const { organisation } = place
  const address = `organisations.${organisation}.keys.${name}`
  const ref = owned.get(address)?.ref
  const found = ref === undefined ? null : await services.db.apiKey.findUnique({ where: { id: ref } })
  // A revoked key stays so: another one takes its place.
  const row = found?.revokedAt ? null : found
  const named = { ...wanted, name: wanted.name ?? name }
  if (row && row.environment !== named.environment)
    conflicts.push(`${address}.environment: the environment of a key cannot be changed. Give the key another place.`)
  const { secret } = named
  if (secret && !isKeySecret(secret.value, named.environment))
    conflicts.push(`${address}.secret: must be svc_sk_${named.environment}_ and 32 to 128 letters and digits.`)
  const sameSecret = secret && (await services.db.apiKey.findUnique({ where: { hash: hashSecret(secret.value) } }))
  if (sameSecret && sameSecret.id !== row?.id) conflicts.push(`${address}.secret: another key has this secret.`)
  const differences = differencesBetween(row && storedKey(row, named), wantedKey(named))
  const action = row ? (differences.length > 0 ? 'change' : 'unchanged') : 'create'
  return { address, kind: 'key', organisation, wanted: named, row, action, differences }
}

const isKeySecret = (text: string, environment: string) =>
  new RegExp(`^svc_sk_${environment}_[0-9A-Za-z]{32,128}$`).test(text)

/** The settings of a key that the file states, with the defaults of those that it does not. */
export function wantedKey({ secret, scopes, ...policy }: ApplyKey): Record<string, unknown> {
  // 0 and an empty list mean what null does: the default.
  const stated = Object.entries(policy).filter(([, value]) => (value ?? 0) !== 0 && !isEmptyList(value))
  return {
    ...defaultSettings,
    ...Object.fromEntries(stated),
    ...(scopes && { scopes: scopes.join(',') }),
    disabled: policy.disabled ?? false,
    ...(policy.expires_at && { expires_at: new Date(policy.expires_at).toISOString() }),
    ...(secret && { secret }),
  }
}

const isEmptyList = (value: unknown) => Array.isArray(value) && value.length === 0

/** What a key is, of the fields that are compared. */
function storedKey(row: ApiKey, { secret, ...wanted }: ApplyKey): Record<string, unknown> {
  const known: Record<string, unknown> = { ...settings(row), disabled: row.disabled }
  const compared = Object.keys(wantedKey(wanted)).map(name => [name, known[name] ?? null])
  // The secret itself is not stored: the same one is shown as the same.
  const isSame = secret && hashSecret(secret.value) === row.hash
  return { ...Object.fromEntries(compared), ...(secret && { secret: isSame ? secret : `…${row.last4}` }) }
}

async function planPreset(planning: Planning, place: Place, name: string, wanted: PresetConfig): Promise<PresetStep> {
  const { services } = planning
  const { organisation, id } = place
  const address = `organisations.${organisation}.presets.${name}`
  const where = { organisationId_name: { organisationId: id ?? '', name } }
  const row = id === null ? null : await services.db.preset.findUnique({ where })
  const common = { address, kind: 'preset', organisation, name, wanted, id: row?.id ?? null } as const
  if (!row) return { ...common, action: 'create', differences: differencesBetween(null, wanted) }
  if (!isOwnedHere(planning, address, 'preset', row.id))
    planning.conflicts.push(foreign(planning, address, 'preset', row.id, 'exists already'))
  const { config } = await services.presets.get(row.organisationId, name)
  const differences = differencesBetween(config, wanted)
  return { ...common, action: differences.length > 0 ? 'change' : 'unchanged', differences }
}

/** What an earlier version of the file made and this one does not have. */
async function planLeft({ services, owned }: Planning, named: ReadonlySet<string>, prune: boolean): Promise<Step[]> {
  const action = prune ? ('delete' as const) : ('keep' as const)
  const steps: Step[] = []
  for (const { address, kind, ref } of owned.values()) {
    if (named.has(address)) continue
    const [, organisation = '', , name = ''] = address.split('.')
    const common = { address, action, differences: [] }
    if (kind === 'organisation') steps.push({ ...common, kind, key: organisation, name: '', id: ref })
    else if (kind === 'key') {
      const row = await services.db.apiKey.findUnique({ where: { id: ref } })
      steps.push({ ...common, kind, organisation, wanted: null, row })
    } else if (kind === 'preset') steps.push({ ...common, kind, organisation, name, wanted: null, id: ref })
    else steps.push({ ...common, kind: kind as OverrideKind, name: ref, value: null })
  }
  // Keys and presets go before their organisation.
  return steps.sort((a, b) => b.address.length - a.address.length)
}

/** The fields of two values that differ. `hidesBefore`: headers of the stored value may be secrets. */
function differencesBetween(before: unknown, after: unknown, hidesHeaders = false): Difference[] {
  const [was, is] = [leavesOf(before), leavesOf(after)]
  const fields = [...new Set([...was.keys(), ...is.keys()])]
  return fields.flatMap(field => {
    const [old, now] = [was.get(field), is.get(field)]
    if (plain(old) === plain(now)) return []
    const isHidden = hidesHeaders && /(^|\.)headers\./.test(field)
    return [{ field, before: isHidden && old !== undefined ? '…' : shown(old), after: shown(now) }]
  })
}

type Leaf = string | number | boolean | null | Secret

/** The values of an object by their path. */
function leavesOf(value: unknown, path: readonly string[] = [], leaves = new Map<string, Leaf>()): Map<string, Leaf> {
  if (value === undefined) return leaves
  if (value instanceof Secret || value === null || typeof value !== 'object') {
    if (value !== null || path.length > 0) leaves.set(path.join('.'), value as Leaf)
  } else if (Array.isArray(value) && value.length === 0) leaves.set(path.join('.'), '[]')
  else if (Array.isArray(value))
    for (const [index, one] of value.entries()) leavesOf(one, [...path, String(index)], leaves)
  else if (isObject(value)) for (const [name, one] of Object.entries(value)) leavesOf(one, [...path, name], leaves)
  return leaves
}

function plain(leaf: Leaf | undefined): string {
  return leaf === undefined || leaf === null ? '' : String(leaf instanceof Secret ? leaf.value : leaf)
}

const maxShownLength = 80

function shown(leaf: Leaf | undefined): string | null {
  if (leaf === undefined || leaf === null) return null
  const text = String(leaf)
  return text.length > maxShownLength ? `${text.slice(0, maxShownLength)}…` : text
}

/** Throws 400 with every reason why a plan cannot be applied. */
export function assertApplicable({ conflicts }: Plan): void {
  if (conflicts.length > 0) throw new GatewayError('invalid_request', conflicts.join('\n'))
}
