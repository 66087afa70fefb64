import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import {
  type AliasOverride,
  type aliasArms,
  type ModelOverride,
  type ServerOverride,
  serverOverride,
} from '../../shared/catalog/overrides.ts'
import { price } from '../../shared/catalog/schema.ts'
import type { Actor } from '../../shared/io/audit.ts'
import type { Platform } from '../../shared/platform.ts'

/** A change of a model: null = as in the files. */
export const modelPatch = z.strictObject({
  disabled: z.boolean().nullable().optional(),
  prices: z.record(z.string().min(1).max(100), price.nullable()).optional().describe('By provider.'),
})
export const newServer = serverOverride.extend({
  api_key: z.string().min(1).max(1_000).nullable().optional().describe('Absent = as before, null = none.'),
})

/** The id of a model, by any of its names. Throws 404. */
export function modelId({ catalog }: Platform, slug: string): string {
  const id = catalog.find(slug)?.id
  if (id === undefined) throw new GatewayError('not_found', `There is no model "${slug}".`)
  return id
}

/** Changes whether a model is offered, and its prices. Throws 400, 404. */
export async function patchModel(
  services: Platform,
  id: string,
  patch: z.output<typeof modelPatch>,
  actor: Actor,
): Promise<void> {
  const update = (before: ModelOverride | null) => {
    const next: ModelOverride = { ...before }
    if (patch.disabled === null) delete next.disabled
    else if (patch.disabled !== undefined) next.disabled = patch.disabled
    const prices = Object.entries({ ...before?.prices, ...patch.prices }).filter(([, price]) => price !== null)
    if (prices.length > 0) next.prices = Object.fromEntries(prices) as ModelOverride['prices']
    else delete next.prices
    return Object.keys(next).length > 0 ? next : null
  }
  const isStored = services.catalogOverrides.current.overrides.some(one => one.kind === 'model' && one.name === id)
  // Nothing to reset is no error.
  if (!isStored && update(null) === null) return
  await services.catalogOverrides.change<ModelOverride>({ kind: 'model', name: id, update }, actor)
}

/** What an alias is to stand for, as an input states it. Throws 400 unless it has a model or arms. */
export function aliasTarget(model: string | undefined, arms: z.output<typeof aliasArms> | undefined): AliasOverride {
  if (model !== undefined && arms === undefined) return { model }
  if (model === undefined && arms !== undefined) return { arms }
  throw new GatewayError('invalid_request', 'Give either a model or arms.', { param: 'model' })
}

/** Makes a name an alias of models, each by any of its names; `target` null removes it. Throws 400, 404. */
export async function setAlias(
  services: Platform,
  alias: string,
  target: AliasOverride | null,
  actor: Actor,
): Promise<void> {
  const { catalogOverrides } = services
  const update = () => target && aliasOf(services, target)
  return catalogOverrides.change<AliasOverride>({ kind: 'alias', name: alias.toLowerCase(), update }, actor)
}

function aliasOf(services: Platform, target: AliasOverride): AliasOverride {
  if ('model' in target) return { model: modelId(services, target.model) }
  return { arms: target.arms.map(arm => ({ ...arm, model: modelId(services, arm.model) })) }
}

/** Adds or replaces a server; null removes it. Throws 400, 404. */
export function setServer(
  { catalogOverrides }: Platform,
  name: string,
  server: z.output<typeof newServer> | null,
  actor: Actor,
): Promise<void> {
  if (server === null) return catalogOverrides.change({ kind: 'server', name, update: () => null }, actor)
  const { api_key: apiKey, ...value } = server
  const secret = apiKey === undefined ? undefined : () => apiKey
  return catalogOverrides.change<ServerOverride>({ kind: 'server', name, update: () => value, secret }, actor)
}
