import { GatewayError } from '../base/errors.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { ClientSecret } from '../keys/client-secrets.ts'
import type { ClientSecretRequest, RealtimeQuery } from '../kinds/realtime.ts'

/** What a session is asked to be. `settings` are given ahead, with a client secret. */
export type Asked = { model: string; intent: string | null; settings: Record<string, unknown> | null }

/**
 * The session that a query and the client secret it comes with ask for. Throws 400 without a model, 403 for another one than
 * the secret's.
 */
export function sessionAsked(catalog: Catalog, query: RealtimeQuery, secret: ClientSecret | null): Asked {
  const { model = secret?.model, intent } = query
  if (!model) throw new GatewayError('missing_field', 'Name a model: `?model=…`.', { param: 'model' })
  const idOf = (slug: string) => catalog.find(slug)?.id ?? slug
  if (secret?.model && idOf(model) !== idOf(secret.model)) {
    const message = `This client secret opens sessions of \`${secret.model}\` only.`
    throw new GatewayError('model_not_allowed', message, { param: 'model' })
  }
  const settings = secret?.settings ?? null
  return { model, intent: intent ?? (settings?.type === 'transcription' ? 'transcription' : null), settings }
}

/** What a client secret's `session` asks for beside the model; null = nothing. */
export function settingsOf({ model: _, ...settings }: ClientSecretRequest['session']): Asked['settings'] {
  return namedSetting(settings) === undefined ? null : settings
}

/** The first of settings that says more than that a session is one; undefined where none does. */
export function namedSetting(settings: Record<string, unknown>): string | undefined {
  return Object.keys(settings).find(name => name !== 'type' || settings.type !== 'realtime')
}
