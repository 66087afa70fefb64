import type { ModelRow } from '../../shared/catalog/schema.ts'
import { allowedModels } from '../../shared/keys/allowlist.ts'
import type { Target } from '../../shared/providers/contract.ts'
import type { Services } from '../../shared/services.ts'
import { type Endpoint, endpoint } from '../endpoint.ts'
import { modelSlugs } from '../media-answers.ts'
import { admitFree } from '../middleware/key.ts'

type Listed = {
  path: string
  operationId: string
  summary: string
  tag: string
  /** Whether a model is of the kind. */
  serves(model: ModelRow): boolean
  /** Who serves it for an environment. */
  targets(services: Services, model: ModelRow, environment: 'live' | 'test'): Target[]
  /** Fields of the kind's own rows beside `id`. */
  fields?: readonly string[]
}

/** The model list of one kind: those that a key can use now. */
export function modelList({ path, operationId, summary, tag, serves, targets, fields = [] }: Listed): Endpoint {
  return endpoint({
    method: 'get',
    path,
    operationId,
    tag,
    summary,
    description: 'The models this key can use here now.',
    access: { scope: null },
    answers: { 200: { description: 'The models.', schema: modelSlugs } },
    async handle({ services, known, ctx }) {
      ctx.set(await admitFree(services, known))
      const { catalog } = services
      const allowed = allowedModels(catalog, known.policy)
      const data = [...catalog.models.values()]
        .filter(model => serves(model) && !model.disabled && allowed?.has(model.id) !== false)
        .filter(model => targets(services, model, known.policy.environment).length > 0)
        .map(model => ({
          id: model.id,
          object: 'model',
          ...Object.fromEntries(fields.map(field => [field, model.kind?.[field] ?? null])),
        }))
      return { object: 'list', data }
    },
  })
}
