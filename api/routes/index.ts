import type { Endpoint } from '../endpoint.ts'
import { balance, readGeneration } from './account.ts'
import { chatCompletions, completions, createEmbeddings, routeDecision } from './chat.ts'
import { docsAsset, docsPage, openApi } from './docs.ts'
import { createKey, deleteKey, listKeys, patchKey, readKey, rollKey } from './keys.ts'
import { listModels } from './models.ts'
import { health, readiness } from './service.ts'

/** Every route of the service. The router serves them and the OpenAPI document describes them. */
export const endpoints: readonly Endpoint[] = [
  chatCompletions,
  completions,
  createEmbeddings,
  routeDecision,
  listModels,
  balance,
  readGeneration,
  listKeys,
  createKey,
  readKey,
  patchKey,
  rollKey,
  deleteKey,
  health,
  readiness,
  openApi(() => endpoints),
  docsPage,
  docsAsset,
]
