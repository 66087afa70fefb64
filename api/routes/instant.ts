import { instantTargets, servesInstant } from '../../shared/instant/run.ts'
import { type InstantKind, instantKinds } from '../../shared/kinds/index.ts'
import type { Endpoint } from '../endpoint.ts'
import { modelList } from './model-list.ts'

/** The model list of one kind of media that is waited for. */
export function instantModels(kind: InstantKind, tag: string, operationId: string, summary: string): Endpoint {
  return modelList({
    path: `${instantKinds[kind].path}/models`,
    operationId,
    summary,
    tag,
    serves: model => servesInstant(kind, model),
    targets: (services, model, environment) => instantTargets(services, kind, model, environment),
  })
}
