import { instantTargets, servesInstant } from '../../shared/instant/run.ts'
import { allowedModels } from '../../shared/keys/allowlist.ts'
import { type InstantKind, instantKinds } from '../../shared/kinds/index.ts'
import { type Endpoint, endpoint } from '../endpoint.ts'
import { modelSlugs } from '../media-answers.ts'
import { admitFree } from '../middleware/key.ts'

/** The errors that every route of media made while the caller waits can give. */
export const instantErrors = [
  'unsupported_capability',
  'insufficient_credits',
  'monthly_spend_cap_reached',
  'model_not_allowed',
  'model_not_found',
  'upstream_error',
  'upstream_invalid_response',
  'no_provider_available',
  'upstream_timeout',
] as const

/** The model list of one kind. */
export function instantModels(kind: InstantKind, tag: string): Endpoint {
  return endpoint({
    method: 'get',
    path: `${instantKinds[kind].path}/models`,
    tag,
    summary: 'List models',
    description: 'The models this key can use here now.',
    access: { scope: null },
    answers: { 200: { description: 'The models.', schema: modelSlugs } },
    async handle({ services, known, ctx }) {
      ctx.set(await admitFree(services, known))
      const { catalog } = services
      const allowed = allowedModels(catalog, known.policy)
      const data = [...catalog.models.values()]
        .filter(model => servesInstant(kind, model) && !model.disabled && allowed?.has(model.id) !== false)
        .filter(model => instantTargets(services, kind, model, known.policy.environment).length > 0)
        .map(({ id }) => ({ id, object: 'model' }))
      return { object: 'list', data }
    },
  })
}
