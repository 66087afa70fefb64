import type { ProviderSettings } from '../base/config.ts'
import { isObject } from '../base/is-object.ts'
import { splitList } from '../base/variable-files.ts'
import type { Deployment, ModelRow, ProviderRow } from './schema.ts'

/**
 * Regions. A provider whose regions are configured becomes one provider per region, named `provider/region`: a target of its own, with
 * its own base URL, prices, health, circuit breaker and figures, so that failover crosses regions as it crosses providers. A cloud
 * that serves some models by another protocol has a row for it, `provider/protocol`, whose regions are `provider/region/protocol`; it
 * shares the cloud's variables. What names providers (requests, pauses, prices of operators) may name any beginning: `azure`,
 * `azure/eastus`.
 */

type Settings = ReadonlyMap<string, ProviderSettings>
type Rows = { models: ReadonlyMap<string, ModelRow>; providers: ReadonlyMap<string, ProviderRow> }

const regionName = /^[a-z0-9][a-z0-9-]{0,39}$/
/** The zone of deployments whose prices are the cloud's common ones. */
const globalZone = 'global'
const namedDeployment = /^([^=@\s]+)=([^=@\s]+?)(?:@([a-z-]+))?$/

/** The cloud or provider that a name begins with. */
export function familyOf(name: string): string {
  const end = name.indexOf('/')
  return end < 0 ? name : name.slice(0, end)
}

/** Whether a name means a provider: as its own, or as one that it is a part of. */
export function namesProvider(name: string, provider: string): boolean {
  return name === provider || (provider.startsWith(name) && provider[name.length] === '/')
}

/** The value for a provider in a map by names, of which the longest that means it counts. */
export function valueFor<Value>(provider: string, get: (name: string) => Value | undefined): Value | undefined {
  for (let name = provider; ; name = name.slice(0, name.lastIndexOf('/'))) {
    const value = get(name)
    if (value !== undefined || !name.includes('/')) return value
  }
}

/**
 * The variables of a provider: those of its region, else of all. A row for another protocol has the variables of its cloud, except
 * for the base URL. Undefined if none is set.
 */
export function settingsOf(settings: Settings, { name, region }: ProviderRow): ProviderSettings | undefined {
  const { family, part, place } = partsOf(name, region)
  const own = [settings.get(family + place + part), settings.get(family + part)]
  const cloud = part === '' ? [] : [settings.get(family + place), settings.get(family)]
  const found = [...own, ...cloud.map(one => one && { ...one, baseUrl: null })].filter(one => one !== undefined)
  const [first, ...rest] = found
  return first && rest.reduce(withDefaults, first)
}

/** The parts of a name as they are in variables: `azure/east-us/anthropic` has `_east_us` and `_anthropic`. */
function partsOf(name: string, region: string | undefined) {
  const [family = '', ...rest] = name.split('/')
  const part = rest.filter(one => one !== region).map(one => `_${one}`)
  return { family, part: part.join(''), place: region === undefined ? '' : `_${region.replaceAll('-', '_')}` }
}

function withDefaults(own: ProviderSettings, all: ProviderSettings): ProviderSettings {
  const { apiKeys, apiKeyOrigin } = own.apiKeys.length > 0 ? own : all
  return {
    apiKeys,
    apiKeyOrigin,
    baseUrl: own.baseUrl ?? all.baseUrl,
    webhookSecret: own.webhookSecret ?? all.webhookSecret,
    proxy: own.proxy ?? all.proxy,
    cloud: { ...all.cloud, ...own.cloud },
  }
}

/**
 * The rows with one provider per configured region, and with the deployments that operators name. Clouds that are not configured
 * keep their row. A model that is served nowhere then keeps its providers, to which nothing is sent: test keys can use every model.
 */
export function placeRegions({ models, providers }: Rows, settings: Settings, faults: string[]): Rows {
  const places = new Map<string, Place[]>()
  for (const row of providers.values()) {
    const needsPlace = row.named_deployments === true || row.base_url.includes('{region}')
    const found = placesOf(row, settings, faults) ?? (needsPlace ? [] : null)
    if (found) places.set(row.name, found)
  }
  if (places.size === 0) return { models, providers }
  const placed = Array.from(models.values(), model => {
    if (!model.providers.some(({ provider }) => places.has(provider))) return model
    const offers = model.providers.flatMap(
      offer => places.get(offer.provider)?.flatMap(deployAt(model, offer, faults)) ?? offer,
    )
    return offers.length > 0 ? { ...model, providers: offers } : model
  })
  const serving = new Set(placed.flatMap(model => model.providers.map(({ provider }) => provider)))
  const rows = Array.from(providers.values(), row => {
    const found = places.get(row.name)?.map(place => place.row) ?? []
    if (found.length === 0) return [row]
    const isKept = serving.has(row.name) && found.every(({ name }) => name !== row.name)
    return [...found.filter(({ name }) => serving.has(name)), ...(isKept ? [row] : [])]
  }).flat()
  for (const place of [...places.values()].flat()) checkDeployments(place, placed, faults)
  return {
    models: new Map(placed.map(row => [row.id, row])),
    providers: new Map(rows.map(row => [row.name, row])),
  }
}

/** A provider, or one of its regions, with the deployments that its operator names; null = models have one name everywhere. */
type Place = { row: ProviderRow; variable: string; deployments: NamedDeployment[] | null }
/** `zone`: whose price it has, such as `eu`; undefined = the region's own. */
type NamedDeployment = { model: string; name: string; zone?: string | undefined }

/** The places of a provider that is configured; null for any other, and for one without regions and named deployments. */
function placesOf(row: ProviderRow, settings: Settings, faults: string[]): Place[] | null {
  const own = settingsOf(settings, row)
  if (!own) return null
  const { family, part } = partsOf(row.name, undefined)
  const prefix = family.toUpperCase()
  const named = row.own_regions ? settings.get(family + part)?.cloud.REGIONS : own.cloud.REGIONS
  const regions = splitList(named ?? '')
  if (regions.length === 0) {
    const isSet = own.apiKeys.length > 0 || own.baseUrl !== null
    if (part === '' && isSet && own.baseUrl === null && row.base_url.includes('{region}'))
      faults.push(`${prefix}_REGIONS is not set`)
    return row.named_deployments && own.baseUrl !== null ? [placeOf(row, settings, faults)!] : null
  }
  if (regions.some(name => !regionName.test(name)) || new Set(regions).size < regions.length) {
    if (part === '') faults.push(`${prefix}_REGIONS: must be different names such as us-east1, separated by commas`)
    return null
  }
  const suffix = row.name.slice(family.length)
  return regions.flatMap(region => {
    const name = `${family}/${region}${suffix}`
    return placeOf({ ...row, name, region }, settings, faults) ?? []
  })
}

/** A provider with its base URL and deployments; null where it is not in its region. */
function placeOf(row: ProviderRow, settings: Settings, faults: string[]): Place | null {
  const { region = '' } = row
  const { baseUrl, cloud } = settingsOf(settings, row)!
  const { family, place } = partsOf(row.name, row.region)
  const there = row.regions?.[region]
  if (there === null) return null
  const template = baseUrl ?? there?.base_url ?? row.base_url
  const prefix = family.toUpperCase()
  if (template.includes('{project}') && cloud.PROJECT === undefined) addOnce(faults, `${prefix}_PROJECT is not set`)
  if (cloud.CREDENTIALS !== undefined && !isJsonObject(cloud.CREDENTIALS))
    addOnce(faults, `${prefix}_CREDENTIALS: must be the JSON of a credentials file`)
  const base_url = template.replaceAll('{region}', region).replaceAll('{project}', cloud.PROJECT ?? '')
  const variable = `${prefix}${place.toUpperCase()}_DEPLOYMENTS`
  const deployments = row.named_deployments ? readDeployments(cloud, variable, faults) : null
  return { row: { ...row, base_url }, variable, deployments }
}

function addOnce(faults: string[], fault: string): void {
  if (!faults.includes(fault)) faults.push(fault)
}

function readDeployments(
  { DEPLOYMENTS = '' }: ProviderSettings['cloud'],
  variable: string,
  faults: string[],
): NamedDeployment[] {
  return splitList(DEPLOYMENTS).flatMap(text => {
    const found = parseDeployment(text)
    if (found) return found
    addOnce(faults, `${variable}: must be a list such as model=deployment,model=deployment@eu`)
    return []
  })
}

/** Makes a model's deployment at each place of a provider; none where it is not served. */
function deployAt(model: ModelRow, offer: Deployment, faults: string[]) {
  return ({ row, variable, deployments }: Place): Deployment[] => {
    const named = deployments?.find(one => one.model === model.id)
    if (deployments && !named) return []
    if (named && !hasPriceIn(offer, named.zone))
      faults.push(`${variable}: ${model.id} has no price for the zone "${named.zone}"`)
    return deploymentIn(offer, named?.zone ?? row.region ?? '', {
      provider: row.name,
      ...(named && { upstream_model: named.name }),
    })
  }
}

/** Whether the price of a deployment in a zone is known; undefined = it has the price of its region. */
function hasPriceIn({ regions = {} }: Deployment, zone: string | undefined): boolean {
  return zone === undefined || zone === globalZone || Boolean(differenceIn(regions, zone))
}

/** A deployment with what differs in a region or zone; none where it is not served. */
function deploymentIn({ regions = {}, ...offer }: Deployment, zone: string, named: Partial<Deployment>): Deployment[] {
  const differing = differenceIn(regions, zone)
  return differing === null ? [] : [{ ...offer, ...differing, ...named }]
}

/** What differs in a region: by its name, else by the longest pattern that matches it. */
function differenceIn<Value>(regions: Record<string, Value>, region: string): Value | undefined {
  if (Object.hasOwn(regions, region)) return regions[region]
  const patterns = Object.keys(regions).filter(key => key.endsWith('*') && region.startsWith(key.slice(0, -1)))
  const [longest] = patterns.sort((a, b) => b.length - a.length)
  return longest === undefined ? undefined : regions[longest]
}

/** A name of a deployment for a model that the cloud does not serve would have no effect. */
function checkDeployments({ row, variable, deployments }: Place, models: readonly ModelRow[], faults: string[]): void {
  const { family } = partsOf(row.name, row.region)
  const here = row.region === undefined ? family : `${family}/${row.region}`
  for (const { model } of deployments ?? []) {
    const served = models
      .find(({ id }) => id === model)
      ?.providers.some(({ provider }) => namesProvider(here, provider))
    if (!served) addOnce(faults, `${variable}: the catalog has no model "${model}" at ${family}`)
  }
}

/**
 * Clouds whose deployments have names of an account, as the files have them, without the operator's regions and names: for own keys of
 * organisations, which bring a resource of theirs. `deployments`: by the id of their model.
 */
export type NamedClouds = {
  providers: ReadonlyMap<string, ProviderRow>
  deployments: ReadonlyMap<string, readonly Deployment[]>
}

/** The clouds of these rows whose deployments have names of an account. */
export function namedCloudsOf({ models, providers }: Rows): NamedClouds {
  const clouds = new Map([...providers].filter(([, row]) => row.named_deployments))
  const deployments = new Map<string, Deployment[]>()
  for (const { id, providers } of models.values()) {
    const offers = providers.filter(({ provider }) => clouds.has(provider))
    if (offers.length > 0) deployments.set(id, offers)
  }
  return { providers: clouds, deployments }
}

/** A resource of an account at a cloud, by the name that is part of its addresses, and its deployments. */
export type CloudResource = { name: string; deployments: NamedDeployment[] }

/** The rows of a cloud with the base URLs of a resource. */
export function providersAtResource({ providers }: NamedClouds, cloud: string, { name }: CloudResource): ProviderRow[] {
  const rows = [...providers.values()].filter(row => familyOf(row.name) === cloud)
  return rows.map(row => ({ ...row, base_url: row.base_url.replaceAll('{region}', name) }))
}

/** What a model is at a resource: nothing if it has no deployment of it, or if the zone has no price. */
export function placeAtResource(
  clouds: NamedClouds,
  cloud: string,
  resource: CloudResource,
  model: string,
): { deployment: Deployment; provider: ProviderRow }[] {
  const named = resource.deployments.find(one => one.model === model)
  const offers = named ? (clouds.deployments.get(model) ?? []) : []
  if (!named || offers.length === 0) return []
  const rows = new Map(providersAtResource(clouds, cloud, resource).map(row => [row.name, row]))
  return offers.flatMap(offer => {
    const provider = rows.get(offer.provider)
    if (!provider || !hasPriceIn(offer, named.zone)) return []
    const placed = deploymentIn(offer, named.zone ?? globalZone, { upstream_model: named.name })
    return placed.map(deployment => ({ deployment, provider }))
  })
}

/** Reads a deployment's name and zone, as in `model=deployment` and `model=deployment@eu`; null for any other text. */
export function parseDeployment(text: string): NamedDeployment | null {
  const [, model, name, zone] = namedDeployment.exec(text) ?? []
  return model && name ? { model, name, zone } : null
}

function isJsonObject(text: string): boolean {
  try {
    return isObject(JSON.parse(text))
  } catch {
    return false
  }
}
