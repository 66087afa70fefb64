import { z } from 'zod'
import { utcDateOf } from '../../shared/base/time.ts'
import { isRetired } from '../../shared/catalog/traits.ts'
import { type Command, command } from './parse.ts'

export const models: Command[] = [
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
      const today = utcDateOf(clock.now())
      const rows = [...catalog.models.values()].filter(({ disabled }) => !disabled)
      const expired = rows.filter(model => isRetired(model, today)).map(({ id }) => id)
      const unserved = rows.filter(model => upstreams.targets(model, 'live').length === 0).map(({ id }) => id)
      const data = { models: rows.length, expired, unserved }
      const text = `${rows.length} models, ${unserved.length} without a configured provider, ${expired.length} past their end${expired.length > 0 ? `: ${expired.join(', ')}` : ''}`
      return { data, text, exitCode: expired.length > 0 ? 1 : 0 }
    },
  }),
]
