import { dayMs, unixSeconds } from '../base/time.ts'
import type { StoredResponse } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import { newResponse } from '../kinds/response-object.ts'
import type { ResponsesItem, ResponsesRequest } from '../kinds/responses.ts'
import type { ResponsesObject } from '../kinds/responses-answer.ts'
import { dropOnFailure } from '../responses/payloads.ts'
import type { Origin } from '../traces/work.ts'
import type { DelayedServices } from './delayed-services.ts'
import { type SubmittedDelayed, submitDelayed } from './submit.ts'

/** At the price of a direct request, and at once. */
const terms = { discountPpm: 0n, holdBackMs: 0, windowMs: 3_600_000 }

/** A response to make in the background: `sent` is its request, `body` the same with the earlier items. */
type BackgroundSubmission = Pick<StoredResponse, 'id' | 'previousId' | 'conversationId' | 'session'> & {
  sent: ResponsesRequest
  body: ResponsesRequest
  input: readonly ResponsesItem[]
}

/**
 * Stores a response that is queued, and creates the job of the same id that makes it, with what `beside` writes in the same
 * transaction. Throws as `submitDelayed` does.
 */
export async function submitBackground(
  services: DelayedServices,
  key: ResolvedKey,
  { sent, body, input, ...links }: BackgroundSubmission,
  origin: Origin,
  beside: (tx: Connection, response: ResponsesObject, submitted: SubmittedDelayed) => Promise<void>,
): Promise<ResponsesObject> {
  const { storedResponses, responseSettings, clock } = services
  const { organisationId, environment, keyId } = key.policy
  const { retentionDays } = await responseSettings.read(organisationId)
  const response = queuedResponse(links, sent, unixSeconds(new Date(clock.now())))
  const { output, ...head } = response
  const prepared = await storedResponses.prepare({
    ...links,
    organisationId,
    environment,
    keyId,
    status: 'queued',
    background: true,
    streamed: sent.stream === true,
    head,
    input,
    output,
    expiresAtMs: clock.now() + retentionDays * dayMs,
  })
  // What the gateway does itself is no part of the request that a provider gets.
  const { background: _, store: __, ...request } = body
  const submission = {
    id: links.id,
    kind: 'responses',
    body: request,
    at: '',
    terms,
    webhookUrl: null,
    metadata: {},
  } as const
  await dropOnFailure(prepared, () =>
    submitDelayed(services, key, submission, origin, async (tx, submitted) => {
      await prepared.insert(tx)
      await beside(tx, response, submitted)
    }),
  )
  return response
}

function queuedResponse(
  { id, previousId, conversationId }: Pick<BackgroundSubmission, 'id' | 'previousId' | 'conversationId'>,
  sent: ResponsesRequest,
  createdAt: number,
): ResponsesObject {
  return {
    ...newResponse({ id, model: sent.model, createdAt }, sent),
    status: 'queued',
    background: true,
    store: true,
    previous_response_id: previousId,
    ...(conversationId !== null && { conversation: { id: conversationId } }),
  }
}
