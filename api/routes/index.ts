import type { Endpoint } from '../endpoint.ts'
import { balance, readGeneration } from './account.ts'
import { audioRoutes } from './audio.ts'
import { listAvatars, listVoices } from './avatars.ts'
import { batchRoutes } from './batches.ts'
import { budgetRoutes } from './budgets.ts'
import { accountCallback, jobCallback } from './callbacks.ts'
import { chatCompletions, completions, createEmbeddings, routeDecision } from './chat.ts'
import { compactResponse } from './compact-response.ts'
import { conversationRoutes } from './conversations.ts'
import { openApi } from './docs.ts'
import { batchEmbedContents, embedContent } from './embed-content.ts'
import { createFeedback } from './feedback.ts'
import { fileRoutes } from './files.ts'
import { listGeminiModels, readGeminiModel } from './gemini-models.ts'
import { generateContentRoutes } from './generate-content.ts'
import { imageRoutes } from './images.ts'
import { jobRoutes } from './jobs.ts'
import { createKey, deleteKey, listKeys, patchKey, readKey, rollKey } from './keys.ts'
import { logExportRoutes } from './log-exports.ts'
import { mediaJobRoutes } from './media-jobs.ts'
import { countTokens, createMessage } from './messages.ts'
import { listModels, readModel } from './models.ts'
import { readDocument } from './ocr.ts'
import { presetRoutes } from './presets.ts'
import { providerKeyRoutes } from './provider-keys.ts'
import { createModeration, createRanking } from './rankings.ts'
import { realtimeRoutes } from './realtime.ts'
import { clearResponseCache } from './response-cache.ts'
import { countInputTokens, createResponse } from './responses.ts'
import { health, readiness } from './service.ts'
import { readStoredFile } from './stored-files.ts'
import { storedResponseRoutes } from './stored-responses.ts'
import { stripeWebhook } from './stripe.ts'
import { createUpload } from './uploads.ts'
import { readUsage } from './usage.ts'
import { webhookEndpointRoutes } from './webhook-endpoints.ts'

/** Every route of the service: served by the router and described by the OpenAPI document. */
export const endpoints: readonly Endpoint[] = [
  chatCompletions,
  completions,
  createMessage,
  countTokens,
  createResponse,
  countInputTokens,
  compactResponse,
  ...storedResponseRoutes,
  ...conversationRoutes,
  ...generateContentRoutes,
  embedContent,
  batchEmbedContents,
  listGeminiModels,
  readGeminiModel,
  createEmbeddings,
  createRanking,
  createModeration,
  readDocument,
  routeDecision,
  createFeedback,
  listModels,
  readModel,
  ...imageRoutes,
  ...audioRoutes,
  ...mediaJobRoutes,
  listAvatars,
  listVoices,
  ...realtimeRoutes,
  createUpload,
  readStoredFile,
  ...jobRoutes,
  ...fileRoutes,
  ...batchRoutes,
  balance,
  readGeneration,
  listKeys,
  createKey,
  readKey,
  patchKey,
  rollKey,
  deleteKey,
  ...budgetRoutes,
  clearResponseCache,
  ...presetRoutes,
  readUsage,
  ...providerKeyRoutes,
  ...webhookEndpointRoutes,
  ...logExportRoutes,
  health,
  readiness,
  jobCallback,
  accountCallback,
  stripeWebhook,
  openApi(() => endpoints),
]
