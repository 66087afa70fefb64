import { GatewayError } from '../base/errors.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { ClientSecret } from '../keys/client-secrets.ts'
import type { ClientSecretRequest, RealtimeQuery } from '../kinds/realtime.ts'

/**
 * What a session is asked to be. Without a `model` any that fits will do; `settings` are given ahead, with a client secret.
 */
export type Asked = { model: string | null; intent: 'transcription' | null; settings: Record<string, unknown> | null }

/**
 * The session that a query and the client secret it comes with ask for. Throws 400 without a model where it is to do more
 * than write down, 403 for another one than the secret's.
 */
export function sessionAsked(catalog: Catalog, query: RealtimeQuery, secret: ClientSecret | null): Asked {
  const settings = secret?.settings ?? null
  const model = query.model ?? secret?.model ?? null
  const intent = query.intent ?? intentOf(settings)
  if (model === null && intent === null)
    throw new GatewayError('missing_field', 'Name a model: `?model=…`.', { param: 'model' })
  const idOf = (slug: string) => catalog.find(slug)?.id ?? slug
  if (model !== null && secret?.model && idOf(model) !== idOf(secret.model)) {
    const message = `This client secret opens sessions of \`${secret.model}\` only.`
    throw new GatewayError('model_not_allowed', message, { param: 'model' })
  }
  return { model, intent, settings }
}

/** What settings given ahead make of a session. */
export function intentOf(settings: Asked['settings']): Asked['intent'] {
  return settings?.type === 'transcription' ? 'transcription' : null
}

/** What a client secret's `session` asks for beside the model; null = nothing. */
export function settingsOf({ model: _, ...settings }: ClientSecretRequest['session']): Asked['settings'] {
  return namedSetting(settings) === undefined ? null : settings
}

/** The first of settings that says more than that a session is one; undefined where none does. */
export function namedSetting(settings: Record<string, unknown>): string | undefined {
  return Object.keys(settings).find(name => name !== 'type' || settings.type !== 'realtime')
}
