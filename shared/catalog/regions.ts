import type { ProviderSettings } from '../base/config.ts'
import { isObject } from '../base/is-object.ts'
import { splitList } from '../base/variable-files.ts'
import type { Deployment, ModelRow, ProviderRow } from './schema.ts'

/**
 * Regions. A provider whose regions are configured becomes one provider per region, named `provider/region`: a target of its own, with
 * its own base URL, prices, health, circuit breaker and figures, so that failover crosses regions as it crosses providers. What
 * names providers (requests, pauses, prices of operators) may name a region, or the provider for all of them.
 */

type Settings = ReadonlyMap<string, ProviderSettings>
type Rows = { models: ReadonlyMap<string, ModelRow>; providers: ReadonlyMap<string, ProviderRow> }

const regionName = /^[a-z0-9][a-z0-9-]{0,39}$/
const namedDeployment = /^([^=@\s]+)=([^=@\s]+?)(?:@([a-z-]+))?$/

/** The provider's name without its region. */
export function familyOf(name: string): string {
  const end = name.indexOf('/')
  return end < 0 ? name : name.slice(0, end)
}

/** Whether a name in a list of providers means this one: its own, or that of the provider of which it is a region. */
export function namesProvider(name: string, provider: string): boolean {
  return name === provider || name === familyOf(provider)
}

/** The variables of a provider; those of a region replace those of the provider. Undefined if none is set. */
export function settingsOf(settings: Settings, { name, region }: ProviderRow): ProviderSettings | undefined {
  if (region === undefined) return settings.get(name)
  const family = settings.get(familyOf(name))
  const own = settings.get(`${familyOf(name)}_${region.replaceAll('-', '_')}`)
  if (!own || !family) return own ?? family
  return {
    ...(own.apiKeys.length > 0 ? own : family),
    baseUrl: own.baseUrl ?? family.baseUrl,
    webhookSecret: own.webhookSecret ?? family.webhookSecret,
    cloud: { ...family.cloud, ...own.cloud },
  }
}

/** The rows with one provider per configured region, and with the deployments that operators name. */
export function placeRegions({ models, providers }: Rows, settings: Settings, faults: string[]): Rows {
  const places = new Map<string, Place[]>()
  for (const row of providers.values()) {
    const found = placesOf(row, settings, faults)
    if (found) places.set(row.name, found)
  }
  if (places.size === 0) return { models, providers }
  const rows = Array.from(providers.values(), row => places.get(row.name)?.map(place => place.row) ?? [row]).flat()
  const placed = Array.from(models.values(), model => {
    if (!model.providers.some(({ provider }) => places.has(provider))) return model
    const offers = model.providers.flatMap(
      offer => places.get(offer.provider)?.flatMap(deployAt(model, offer, faults)) ?? offer,
    )
    return { ...model, providers: offers }
  })
  for (const place of [...places.values()].flat()) checkDeployments(place, placed, faults)
  return {
    models: new Map(placed.map(row => [row.id, row])),
    providers: new Map(rows.map(row => [row.name, row])),
  }
}

/** A provider, or one of its regions, with the deployments that its operator names; null = models have one name everywhere. */
type Place = { row: ProviderRow; variable: string; deployments: NamedDeployment[] | null }
type NamedDeployment = { model: string; name: string; zone: string | undefined }

/** The places of a provider that is configured; null for any other, and for one without regions and named deployments. */
function placesOf(row: ProviderRow, settings: Settings, faults: string[]): Place[] | null {
  const own = settings.get(row.name)
  const prefix = row.name.toUpperCase()
  const regions = splitList(own?.cloud.REGIONS ?? '')
  if (own?.cloud.CREDENTIALS !== undefined && !isJsonObject(own.cloud.CREDENTIALS))
    faults.push(`${prefix}_CREDENTIALS: must be the JSON of a credentials file`)
  if (regions.some(name => !regionName.test(name)) || new Set(regions).size < regions.length) {
    faults.push(`${prefix}_REGIONS: must be different names such as us-east1, separated by commas`)
    return null
  }
  if (regions.length === 0 && row.base_url.includes('{region}') && own && own.apiKeys.length > 0) {
    faults.push(`${prefix}_REGIONS is not set`)
    return null
  }
  const rows = regions.map(region => ({ ...row, name: `${row.name}/${region}`, region }))
  if (regions.length === 0 && !(row.named_deployments && own && (own.apiKeys.length > 0 || own.baseUrl))) return null
  return (rows.length > 0 ? rows : [row]).map((one): Place => {
    const { baseUrl = null, cloud = {} } = settingsOf(settings, one) ?? {}
    const place = one.region === undefined ? prefix : `${prefix}_${one.region.replaceAll('-', '_').toUpperCase()}`
    const template = baseUrl ?? row.regions?.[one.region ?? '']?.base_url ?? row.base_url
    if (template.includes('{project}') && cloud.PROJECT === undefined) faults.push(`${prefix}_PROJECT is not set`)
    const base_url = template.replaceAll('{region}', one.region ?? '').replaceAll('{project}', cloud.PROJECT ?? '')
    const variable = `${place}_DEPLOYMENTS`
    return {
      row: { ...one, base_url },
      variable,
      deployments: row.named_deployments ? readDeployments(cloud, variable, faults) : null,
    }
  })
}

function readDeployments(
  { DEPLOYMENTS = '' }: ProviderSettings['cloud'],
  variable: string,
  faults: string[],
): NamedDeployment[] {
  return splitList(DEPLOYMENTS).flatMap(text => {
    const [, model, name, zone] = namedDeployment.exec(text) ?? []
    if (model && name) return { model, name, zone }
    faults.push(`${variable}: must be a list such as model=deployment,model=deployment@eu`)
    return []
  })
}

/** Makes a model's deployment at each place of a provider; none where it is not served. */
function deployAt(model: ModelRow, { regions, ...offer }: Deployment, faults: string[]) {
  return ({ row, variable, deployments }: Place): Deployment[] => {
    const named = deployments?.find(one => one.model === model.id)
    if (deployments && !named) return []
    const zone = named?.zone ?? row.region ?? ''
    const differing = differenceIn(regions ?? {}, zone)
    if (named?.zone !== undefined && named.zone !== 'global' && !differing)
      faults.push(`${variable}: ${model.id} has no price for the zone "${named.zone}"`)
    if (differing === null) return []
    return [{ ...offer, ...differing, provider: row.name, ...(named && { upstream_model: named.name }) }]
  }
}

/** What differs in a region: by its name, else by the longest pattern that matches it. */
function differenceIn<Value>(regions: Record<string, Value>, region: string): Value | undefined {
  if (Object.hasOwn(regions, region)) return regions[region]
  const patterns = Object.keys(regions).filter(key => key.endsWith('*') && region.startsWith(key.slice(0, -1)))
  const [longest] = patterns.sort((a, b) => b.length - a.length)
  return longest === undefined ? undefined : regions[longest]
}

/** A name of a deployment for a model that the provider does not serve would have no effect. */
function checkDeployments({ row, variable, deployments }: Place, models: readonly ModelRow[], faults: string[]): void {
  for (const { model } of deployments ?? []) {
    const served = models.find(({ id }) => id === model)?.providers.some(({ provider }) => provider === row.name)
    if (!served) faults.push(`${variable}: the catalog has no model "${model}" at ${familyOf(row.name)}`)
  }
}

function isJsonObject(text: string): boolean {
  try {
    return isObject(JSON.parse(text))
  } catch {
    return false
  }
}
