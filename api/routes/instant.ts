import { type InstantKind, instantKinds } from '../../shared/kinds/index.ts'
import { mediaTargets, servesMedia } from '../../shared/media/run.ts'
import type { Endpoint } from '../endpoint.ts'
import { modelList } from './model-list.ts'

/** The model list of one synchronous media kind. */
export function instantModels(kind: InstantKind, tag: string, operationId: string, summary: string): Endpoint {
  return modelList({
    path: `${instantKinds[kind].path}/models`,
    operationId,
    summary,
    tag,
    serves: model => servesMedia(kind, model),
    targets: (services, model, environment) => mediaTargets(services, kind, model, environment),
  })
}
