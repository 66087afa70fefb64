import { GatewayError } from '../base/errors.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { ClientSecret } from '../keys/client-secrets.ts'
import type { ClientSecretRequest, RealtimeQuery } from '../kinds/realtime.ts'

/**
 * A requested session. Without a `model` any suitable one is used; `settings` come in advance, with a client secret.
 */
export type SessionRequest = {
  model: string | null
  intent: 'transcription' | null
  settings: Record<string, unknown> | null
}

/**
 * Parses the session requested by a query and its client secret. Throws 400 without a model unless it is a
 * transcription session, 403 for a model other than the secret's.
 *
 * Clients of gateways, LiveKit's among them, name the model that transcribes in the URL of a transcription session. Its
 * settings name it as well, so any suitable model opens the session.
 */
export function parseSessionRequest(
  catalog: Catalog,
  query: RealtimeQuery,
  secret: ClientSecret | null,
): SessionRequest {
  const settings = secret?.settings ?? null
  const intent = query.intent ?? intentOf(settings)
  const namesTranscriber =
    intent === 'transcription' && query.model !== undefined && catalog.find(query.model)?.type === 'transcription'
  const model = (namesTranscriber ? null : query.model) ?? secret?.model ?? null
  if (model === null && intent === null)
    throw new GatewayError('missing_field', 'Name a model: `?model=…`.', { param: 'model' })
  const idOf = (slug: string) => catalog.find(slug)?.id ?? slug
  if (model !== null && secret?.model && idOf(model) !== idOf(secret.model)) {
    const message = `This client secret opens sessions of \`${secret.model}\` only.`
    throw new GatewayError('model_not_allowed', message, { param: 'model' })
  }
  return { model, intent, settings }
}

/** The intent implied by settings given in advance. */
export function intentOf(settings: SessionRequest['settings']): SessionRequest['intent'] {
  return settings?.type === 'transcription' ? 'transcription' : null
}

/** The settings of a client secret's `session` besides the model and traces, which are not kept; null = none. */
export function settingsOf({
  model: _,
  tracing: __,
  ...settings
}: ClientSecretRequest['session']): SessionRequest['settings'] {
  return namedSetting(settings) === undefined ? null : settings
}

/** The first setting besides a realtime `type`; undefined if there is none. */
export function namedSetting(settings: Record<string, unknown>): string | undefined {
  return Object.keys(settings).find(name => name !== 'type' || settings.type !== 'realtime')
}
