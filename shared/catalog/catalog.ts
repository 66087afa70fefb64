import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { z } from 'zod'
import { type Config, ConfigError } from '../base/config.ts'
import { keyText } from '../base/issue-text.ts'
import { nearestName } from '../base/near-misses.ts'
import { aliasFaults, dropTakenAliases, namesOf, withoutGateway } from './aliases.ts'
import { type NamedClouds, namedCloudsOf, placeRegions } from './regions.ts'
import { resolveReferences, sendable } from './request-additions.ts'
import {
  type AddedDeployment,
  addedDeployment,
  type Deployment,
  type ModelRow,
  modelRow,
  type ProviderRow,
  parametersFault,
  providerRow,
  qualitySources,
  type RetiredNames,
  retiredNames,
  takesParameters,
} from './schema.ts'

/** All faults of the catalog files, one line each. */
export class CatalogError extends Error {
  override name = 'CatalogError'
  readonly faults: string[]
  constructor(faults: string[]) {
    super(`The model catalog has ${faults.length} fault(s):\n${faults.join('\n')}`)
    this.faults = faults
  }
}

/** A model at a provider. */
export type CatalogTarget = { deployment: Deployment; provider: ProviderRow }

/** A model that serves a part of the requests of an alias. */
export type AliasArm = { model: string; percent: number }

export type Catalog = {
  models: ReadonlyMap<string, ModelRow>
  providers: ReadonlyMap<string, ProviderRow>
  /** What replaces names that no row has, by the name in lower case. */
  retired: ReadonlyMap<string, RetiredNames>
  /** What own keys of organisations reach at resources of theirs. */
  namedClouds: NamedClouds
  /** What shares the requests of an alias, by the alias in lower case. */
  arms: ReadonlyMap<string, readonly AliasArm[]>
  /**
   * Finds the row of a client's slug: an id or alias, optionally prefixed with `owned_by/`, case-insensitive. An alias that several
   * models share stands for the first, where a request is not routed.
   */
  find(slug: string): ModelRow | undefined
  /** The providers of a model, in the row's order. */
  targets(model: ModelRow): readonly CatalogTarget[]
}

const outerShape = z.strictObject({
  providers: z.array(z.unknown()).default([]),
  models: z.array(z.unknown()).default([]),
  deployments: z.record(z.string(), z.array(z.unknown())).default({}),
  retired: z.array(z.unknown()).default([]),
  quality_sources: qualitySources.default({}),
})

const shippedFolder = join(import.meta.dirname, 'data')

/** Reads a variable of the environment that a file refers to. */
type ReadVariable = (name: string) => string | undefined

/**
 * Reads and validates the shipped catalog and the operator's own file (`MODEL_CATALOG`), whose rows replace shipped
 * rows with the same id or name. `settings`: of providers; without them, clouds have one row for all their
 * regions. `read`: of the variables in the headers of deployments; without it, references stay as they are. Throws a CatalogError that
 * lists every fault.
 */
export function loadCatalog(
  extraFile?: string,
  settings: Config['providers'] | null = null,
  read: ReadVariable | null = null,
): Catalog {
  shipped ??= readShipped()
  const faults = [...shipped.faults]
  const shippedRows = mergeRows(shipped.files, faults)
  const extraRows = mergeRows(extraFile === undefined ? [] : [readCatalogFile(extraFile, faults)], faults)
  const providers = new Map([...shippedRows.providers, ...extraRows.providers])
  addDeployments(shippedRows.models, shippedRows.deployments, faults)
  const models = new Map([...dropTakenAliases(shippedRows.models, extraRows.models), ...extraRows.models])
  addDeployments(models, extraRows.deployments, faults)
  for (const { file, row } of models.values()) {
    for (const [index, { provider, parameters }] of row.providers.entries()) {
      const place = `${file}: models[${row.id}]: providers.${index}`
      if (!providers.has(provider)) faults.push(`${place}.provider: unknown provider "${provider}"`)
      if (parameters && !takesParameters(row.type)) faults.push(`${place}.parameters: ${parametersFault}`)
    }
    if (!row.disabled && row.providers.length === 0) {
      faults.push(`${file}: models[${row.id}]: providers: an enabled model needs at least one provider`)
    }
  }
  faults.push(...aliasFaults(models))
  const retired = new Map([...shippedRows.retired, ...extraRows.retired])
  for (const [name, { file, row }] of retired) {
    if (!models.has(row.replaced_by))
      faults.push(`${file}: retired[${name}]: replaced_by: there is no model "${row.replaced_by}"`)
  }
  if (read) resolveHeaders(models, read, faults)
  const all = { models: rowsOf(models), providers: rowsOf(providers) }
  const rows = settings ? placeRegions(all, settings, faults) : all
  if (faults.length > 0) throw new CatalogError(faults)
  return buildCatalog(rows.models, rows.providers, rowsOf(retired), namedCloudsOf(all))
}

type SourceRow<Row> = { file: string; row: Row }
type Added = { file: string; model: string; deployment: AddedDeployment }
type CatalogFileRows = {
  file: string
  providers: ProviderRow[]
  models: ModelRow[]
  deployments: Added[]
  retired: RetiredNames[]
}

type Shipped = { files: CatalogFileRows[]; faults: string[] }
/** What the shipped files have. They do not change while a process runs, and validating them takes most of the time of a load. */
let shipped: Shipped | undefined

function readShipped(): Shipped {
  const faults: string[] = []
  const names = readdirSync(shippedFolder).filter(name => name.endsWith('.json'))
  return { files: names.sort().map(name => readCatalogFile(join(shippedFolder, name), faults)), faults }
}

function rowsOf<Row>(found: Map<string, SourceRow<Row>>): Map<string, Row> {
  return new Map([...found].map(([key, { row }]) => [key, row]))
}

function readCatalogFile(path: string, faults: string[]): CatalogFileRows {
  const file = basename(path)
  const empty = { file, providers: [], models: [], deployments: [], retired: [] }
  let json: unknown
  try {
    json = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    faults.push(`${file}: cannot be read as JSON: ${error instanceof Error ? error.message : String(error)}`)
    return empty
  }
  // Validates the outer shape first, so that a fault inside a row can name the row.
  const outer = outerShape.safeParse(json)
  if (!outer.success) {
    faults.push(...formatIssues(`${file}:`, outer.error))
    return empty
  }
  return {
    file,
    providers: parseRows(providerRow, outer.data.providers, 'name', `${file}: providers`, faults),
    models: parseRows(modelRow, outer.data.models, 'id', `${file}: models`, faults),
    deployments: Object.entries(outer.data.deployments).flatMap(([model, rows]) =>
      parseRows(addedDeployment, rows, 'provider', `${file}: deployments.${model}`, faults).map(one => ({
        file,
        model,
        deployment: one,
      })),
    ),
    retired: parseRows(retiredNames, outer.data.retired, 'replaced_by', `${file}: retired`, faults),
  }
}

function parseRows<Row>(schema: z.ZodType<Row>, rows: unknown[], key: string, where: string, faults: string[]): Row[] {
  const good: Row[] = []
  for (const [index, raw] of rows.entries()) {
    const row = schema.safeParse(raw)
    if (row.success) {
      good.push(row.data)
      continue
    }
    const named = typeof raw === 'object' && raw !== null ? (raw as Record<string, unknown>)[key] : undefined
    faults.push(...formatIssues(`${where}[${typeof named === 'string' ? named : index}]:`, row.error, schema))
  }
  return good
}

/** `schema`: of which the faults name a member that may be meant by an unknown one. */
function formatIssues(where: string, { issues }: z.ZodError, schema?: z.ZodType): string[] {
  return issues.flatMap(issue => {
    const { path, message } = issue
    if (issue.code !== 'unrecognized_keys') return formatFault(where, path, keyText(issue) ?? message)
    const names = schema && namesAt(schema, path)
    return issue.keys.map(key => {
      const meant = nearestName(key, names ?? [], minMeantLength)
      const text = `Unrecognized key: "${key}"${meant === null ? '' : ` (did you mean "${meant}"?)`}`
      return formatFault(where, path.length > 0 ? [...path, key] : [], text)
    })
  })
}

function formatFault(where: string, path: readonly PropertyKey[], message: string): string {
  return [where, path.length > 0 && `${path.join('.')}:`, message].filter(Boolean).join(' ')
}

/** Shorter names resemble too many others. */
const minMeantLength = 4

/** The names that the object at a path of a schema may have; none if it is not found. */
function namesAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault)
    return namesAt(schema.unwrap() as z.ZodType, path)
  if (schema instanceof z.ZodPipe) return namesAt(schema.out as z.ZodType, path)
  const [name, ...rest] = path
  if (schema instanceof z.ZodArray) return namesAt(schema.element as z.ZodType, rest)
  if (!(schema instanceof z.ZodObject)) return []
  if (name === undefined) return Object.keys(schema.shape)
  const member: z.ZodType | undefined = schema.shape[name as string]
  return member ? namesAt(member, rest) : []
}

/** Merges rows of several files by id and name; duplicates and the reserved id `auto` are faults. */
function mergeRows(files: CatalogFileRows[], faults: string[]) {
  const providers = new Map<string, SourceRow<ProviderRow>>()
  const models = new Map<string, SourceRow<ModelRow>>()
  const retired = new Map<string, SourceRow<RetiredNames>>()
  for (const { file, ...rows } of files) {
    for (const row of rows.providers) {
      if (providers.has(row.name))
        faults.push(`${file}: providers[${row.name}]: name: there is another row of this name`)
      providers.set(row.name, { file, row })
    }
    for (const row of rows.models) {
      if (row.id.toLowerCase() === 'auto')
        faults.push(`${file}: models[${row.id}]: id: "auto" is the router's own name`)
      if (models.has(row.id)) faults.push(`${file}: models[${row.id}]: id: there is another row of this id`)
      models.set(row.id, { file, row })
    }
    for (const row of rows.retired) {
      for (const name of row.names.map(one => one.toLowerCase())) {
        if (retired.has(name)) faults.push(`${file}: retired[${row.replaced_by}]: names: "${name}" is there twice`)
        retired.set(name, { file, row })
      }
    }
  }
  return { providers, models, deployments: files.flatMap(file => file.deployments), retired }
}

/** Adds providers to the models of other files. */
function addDeployments(models: Map<string, SourceRow<ModelRow>>, added: readonly Added[], faults: string[]): void {
  for (const { file, model, deployment } of added) {
    const { like, ...own } = deployment
    const found = models.get(model)
    const example = found?.row.providers.find(({ provider }) => provider === like)
    if (!found) faults.push(`${file}: deployments.${model}: there is no model of this id`)
    else if (like !== undefined && !example)
      faults.push(`${file}: deployments.${model}: like: "${like}" does not serve this model`)
    if (!found) continue
    const { traits, profile, cached_input_source } = example ?? {}
    const inherited = {
      ...(traits && { traits }),
      ...(profile && { profile }),
      ...(cached_input_source && { cached_input_source }),
    }
    const row = { ...found.row, providers: [...found.row.providers, { ...inherited, ...own }] }
    models.set(model, { ...found, row })
  }
}

/** Replaces the references to variables in the headers of deployments. */
function resolveHeaders(models: Map<string, SourceRow<ModelRow>>, read: ReadVariable, faults: string[]): void {
  for (const [id, { file, row }] of models) {
    if (row.providers.every(({ headers }) => headers === undefined)) continue
    const providers = row.providers.map((offer, index) => {
      const values = Object.entries(offer.headers ?? {}).map(([name, text]) => {
        const place = `${file}: models[${id}]: providers.${index}.headers.${name}`
        const value = resolveReferences(text, read, missing => faults.push(`${place}: ${missing} is not set`))
        if (!sendable.test(value)) faults.push(`${place}: the value has characters that no header has`)
        return [name, value] as const
      })
      return values.length > 0 ? { ...offer, headers: Object.fromEntries(values) } : offer
    })
    models.set(id, { file, row: { ...row, providers } })
  }
}

/** Builds the catalog from rows by id and by name. */
export function buildCatalog(
  models: ReadonlyMap<string, ModelRow>,
  providers: ReadonlyMap<string, ProviderRow>,
  retired: Catalog['retired'],
  namedClouds: NamedClouds = { providers: new Map(), deployments: new Map() },
  arms: Catalog['arms'] = new Map(),
): Catalog {
  const bySlug = new Map<string, ModelRow>()
  for (const [alias, [first]] of arms) bySlug.set(alias, models.get(first!.model)!)
  for (const row of models.values()) for (const name of namesOf(row).aliases) bySlug.set(name, row)
  for (const row of models.values()) for (const name of namesOf(row).own) bySlug.set(name, row)
  // Ids take precedence: an operator's row may use another row's `vendor/id` as its own id.
  for (const row of models.values()) bySlug.set(row.id.toLowerCase(), row)
  const findByName = (name: string): ModelRow | undefined => {
    const row = bySlug.get(name)
    const bare = row ? null : withoutGateway(name)
    return bare === null || arms.has(bare) ? row : bySlug.get(bare)
  }
  const targets = new Map<ModelRow, CatalogTarget[]>()
  for (const row of models.values()) {
    targets.set(
      row,
      row.providers.map(deployment => ({ deployment, provider: providers.get(deployment.provider)! })),
    )
  }
  return {
    models,
    providers,
    retired,
    namedClouds,
    arms,
    find: slug => models.get(slug) ?? findByName(slug.toLowerCase()),
    targets: model => targets.get(model) ?? [],
  }
}

/**
 * The current catalog of a process, which can be replaced while requests run. Each replacement has its own maps, which never
 * change: a decision that reads them sees one catalog, and a request that has chosen its targets keeps their prices. What is
 * derived from a catalog can be cached by the identity of its `models`.
 */
export class LiveCatalog implements Catalog {
  /** The catalog that the process started with: that of the files. */
  readonly initial: Catalog
  #current: Catalog
  /** The targets of the rows of former catalogs, for requests that still hold such a row. */
  readonly #formerTargets = new WeakMap<ModelRow, readonly CatalogTarget[]>()

  constructor(initial: Catalog) {
    this.initial = initial
    this.#current = initial
  }

  get models(): ReadonlyMap<string, ModelRow> {
    return this.#current.models
  }

  get providers(): ReadonlyMap<string, ProviderRow> {
    return this.#current.providers
  }

  get retired(): Catalog['retired'] {
    return this.#current.retired
  }

  get namedClouds(): NamedClouds {
    return this.#current.namedClouds
  }

  get arms(): Catalog['arms'] {
    return this.#current.arms
  }

  find(slug: string): ModelRow | undefined {
    return this.#current.find(slug)
  }

  targets(model: ModelRow): readonly CatalogTarget[] {
    const targets = this.#current.targets(model)
    return targets.length > 0 ? targets : (this.#formerTargets.get(model) ?? targets)
  }

  replace(next: Catalog): void {
    for (const row of this.#current.models.values()) this.#formerTargets.set(row, this.#current.targets(row))
    this.#current = next
  }
}

/** The catalog of this configuration. Throws a ConfigError if the operator's file is invalid. */
export function openCatalog(config: Config): Catalog {
  try {
    return loadCatalog(config.modelCatalog ?? undefined, config.providers, config.readVariable)
  } catch (error) {
    if (error instanceof CatalogError)
      throw new ConfigError(error.faults.map(fault => (variableFault.test(fault) ? fault : `MODEL_CATALOG: ${fault}`)))
    throw error
  }
}

/** A fault of a variable, not of a row of a file. */
const variableFault = /^[A-Z][A-Z0-9_]*(:| is not set)/
