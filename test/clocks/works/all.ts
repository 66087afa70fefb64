import type { Work } from '../cell.ts'
import { cappedKeys, dashboardSessions, expiringKeys, rateLimits } from './access.ts'
import { chats, leftCalls, streams } from './calls.ts'
import { files, idempotentRequests, storedResponses } from './kept.ts'
import { batches, delayedJobs, videos } from './slow.ts'
import { alertRules, retention, webhookRetries } from './upkeep.ts'
import { voiceSessions } from './voice.ts'

/** Every kind of work. */
export const works: readonly Work[] = [
  ...[chats, streams, leftCalls, voiceSessions],
  ...[delayedJobs, videos, batches, webhookRetries],
  ...[files, storedResponses, idempotentRequests],
  ...[dashboardSessions, expiringKeys, cappedKeys, rateLimits],
  ...[alertRules, retention],
]
