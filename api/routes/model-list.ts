import type { ModelRow } from '../../shared/catalog/schema.ts'
import { allowedModels } from '../../shared/keys/policy.ts'
import { type SyncKind, syncKinds } from '../../shared/kinds/index.ts'
import { mediaTargets, servesMedia } from '../../shared/media/run.ts'
import type { Platform } from '../../shared/platform.ts'
import type { Target } from '../../shared/providers/contract.ts'
import { type Endpoint, endpoint } from '../endpoint.ts'
import { modelSlugs } from '../schemas/jobs.ts'

type Listed = {
  path: string
  operationId: string
  summary: string
  tag: string
  /** Whether a model belongs to the kind. */
  serves(model: ModelRow): boolean
  /** The targets that serve it in an environment. */
  targets(services: Platform, model: ModelRow, environment: 'live' | 'test'): Target[]
  /** Fields specific to the kind's rows, beside `id`. */
  fields?: readonly string[]
}

/** The model list of one kind: the models that a key can currently use. */
export function modelList({ path, operationId, summary, tag, serves, targets, fields = [] }: Listed): Endpoint {
  return endpoint({
    method: 'get',
    path,
    operationId,
    tag,
    summary,
    description: 'Lists the models of this kind that the key can currently use.',
    access: { scope: null },
    free: true,
    answers: { 200: { description: 'The models.', schema: modelSlugs } },
    async handle({ services, apiKey }) {
      const { catalog } = services
      const allowed = allowedModels(catalog, apiKey.policy)
      const data = [...catalog.models.values()]
        .filter(model => serves(model) && !model.disabled && allowed?.has(model.id) !== false)
        .filter(model => targets(services, model, apiKey.policy.environment).length > 0)
        .map(model => ({
          id: model.id,
          object: 'model',
          ...Object.fromEntries(
            fields.map(field => [field, (model.kind as Record<string, unknown> | undefined)?.[field] ?? null]),
          ),
        }))
      return { object: 'list', data }
    },
  })
}

/** The model list of one synchronous media kind. */
export function mediaModelList(kind: SyncKind, tag: string, operationId: string, summary: string): Endpoint {
  return modelList({
    path: syncKinds[kind].modelsPath,
    operationId,
    summary,
    tag,
    serves: model => servesMedia(kind, model),
    targets: (services, model, environment) => mediaTargets(services, kind, model, environment),
  })
}
