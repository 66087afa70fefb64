import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { cancelDelayed } from '../../shared/delayed/cancel.ts'
import type { DelayedServices } from '../../shared/delayed/delayed-services.ts'
import { presentBackground } from '../../shared/delayed/present-background.ts'
import type { FileOwner } from '../../shared/files/files.ts'
import { presentInput, presentResponse } from '../../shared/responses/present.ts'
import type { ResponseServices } from '../../shared/responses/response-services.ts'
import type { ResponseRow } from '../../shared/responses/stored-responses.ts'
import { type Endpoint, endpoint, type RequestWithoutKoa } from '../endpoint.ts'
import { eraseAnswers } from '../idempotency/stored-answer.ts'
import { page } from '../schemas/core.ts'
import { responseEvent, responseItem, responseObject } from '../schemas/responses.ts'
import { streamEvents } from './background-response.ts'
import { paging, readPage } from './paging.ts'

const maxEventNumber = 1_000_000_000

const shared = { tag: 'Responses', access: { scope: 'chat' }, free: true } as const

/** Clients ask for more by `include`, and some add parameters to every request: both are ignored. */
const include = { include: z.unknown().optional().describe('Ignored: everything that is stored is returned.') }

/** Finds a response visible to the key. Throws 404. */
async function find({ storedResponses }: ResponseServices, id: string, owner: FileOwner): Promise<ResponseRow> {
  const row = await storedResponses.find(id, owner)
  if (!row) throw missing(id)
  return row
}

/** The same, whose content will be read: it counts towards the memory of buffered answers. Throws 404, 429, 503. */
async function findToRead(
  { services, apiKey, client }: Pick<RequestWithoutKoa<unknown>, 'services' | 'apiKey' | 'client'>,
  id: string,
): Promise<ResponseRow> {
  const row = await find(services, id, apiKey.policy)
  client.collect(row.itemsBytes)
  return row
}

function missing(id: string): GatewayError {
  return new GatewayError('not_found', `Response with id '${id.slice(0, 100)}' not found.`, { param: 'id' })
}

const readResponse = endpoint({
  ...shared,
  method: 'get',
  path: '/v1/responses/{id}',
  operationId: 'getResponse',
  summary: 'Retrieve a stored response',
  description: 'A response in the background that was created with `stream: true` can be streamed, also repeatedly.',
  query: z.object({
    ...include,
    stream: z.enum(['true', 'false']).optional().describe('`true`: the answer is the event stream of the response.'),
    starting_after: z.coerce
      .number()
      .int()
      .min(0)
      .max(maxEventNumber)
      .optional()
      .describe('With `stream`: the `sequence_number` after which the events begin.'),
  }),
  answers: {
    200: { description: 'The response, or its event stream.', schema: responseObject, events: responseEvent },
  },
  errors: ['not_found', 'invalid_request'],
  async handle(request) {
    const { services, apiKey, params, query } = request
    if (query.stream === 'true') {
      const row = await find(services, params.id!, apiKey.policy)
      assertStreamed(row)
      return streamEvents(request, row, { after: query.starting_after ?? -1, headers: {} })
    }
    const row = await findToRead(request, params.id!)
    return row.background ? presentBackground(services, row) : presentResponse(services, row)
  },
})

function assertStreamed({ background, streamed }: ResponseRow): void {
  if (background && streamed) return
  const message = '`stream`: only a response that was created with `background` and `stream` can be streamed.'
  throw new GatewayError('invalid_request', message, { param: 'stream' })
}

/** Cancels a response that is not over yet, and ends its streams. */
async function cancelUnfinished(services: DelayedServices, { id, status }: ResponseRow): Promise<void> {
  if (status !== 'queued') return
  await cancelDelayed(services, id).catch(error => {
    if (!(error instanceof GatewayError && error.code === 'not_cancellable')) throw error
  })
  await services.responseEvents.close(id)
}

/** Whether a cancelled response is still charged for what its events show; after that, they are removed. */
async function isSettling({ delayedJobs }: DelayedServices, id: string): Promise<boolean> {
  const job = await delayedJobs.read(id)
  return job !== null && job.stage !== 'over'
}

const listInputItems = endpoint({
  ...shared,
  method: 'get',
  path: '/v1/responses/{id}/input_items',
  operationId: 'listResponseInputItems',
  summary: 'List the input items of a stored response',
  description:
    'Lists the input of the request itself, without that of the responses and conversations that it continues.',
  query: z.object({ ...paging, ...include }),
  answers: { 200: { description: 'A page of items.', schema: page(responseItem, 'ResponseItemList') } },
  errors: ['not_found'],
  async handle(request) {
    const { services, params, query } = request
    const items = await presentInput(services, await findToRead(request, params.id!))
    const ordered = query.order === 'asc' ? items : items.toReversed()
    return readPage(
      query,
      async ({ limit, after }) => {
        const from = after === undefined ? 0 : ordered.findIndex(({ id }) => id === after) + 1
        if (after !== undefined && from === 0)
          throw new GatewayError('not_found', 'There is no item of that id to list after.', { param: 'after' })
        return ordered.slice(from, from + limit)
      },
      async page => page,
    )
  },
})

const deleteResponse = endpoint({
  ...shared,
  method: 'delete',
  path: '/v1/responses/{id}',
  operationId: 'deleteResponse',
  summary: 'Delete a stored response',
  description:
    'Deletes the response and its input immediately; in the background, it is cancelled first. Responses that continue it remain, but cannot be continued.',
  answers: {
    200: {
      description: 'The response is deleted.',
      schema: z
        .strictObject({ id: z.string(), object: z.literal('response'), deleted: z.literal(true) })
        .meta({ id: 'DeletedResponse' }),
    },
  },
  errors: ['not_found'],
  async handle({ services, apiKey, params }) {
    const id = params.id!
    const row = await find(services, id, apiKey.policy)
    if (row.background) await cancelUnfinished(services, row)
    await eraseAnswers(services, apiKey.policy.organisationId, id)
    if (row.background) await services.webhooks.forgetBodies(id)
    if (!(await services.storedResponses.delete(id, apiKey.policy))) throw missing(id)
    if (row.streamed && !(await isSettling(services, id))) await services.responseEvents.remove(id)
    return { id, object: 'response', deleted: true }
  },
})

const cancelResponse = endpoint({
  ...shared,
  method: 'post',
  path: '/v1/responses/{id}/cancel',
  operationId: 'cancelResponse',
  summary: 'Cancel a response',
  description:
    'Only responses in the background can be cancelled; to end any other, close its connection. What was used until then is charged. A response that has ended remains as it is.',
  answers: { 200: { description: 'The cancelled response.', schema: responseObject } },
  errors: ['not_found', 'invalid_request'],
  async handle(request) {
    const { services, params } = request
    const row = await findToRead(request, params.id!)
    if (!row.background)
      throw new GatewayError('invalid_request', 'Cannot cancel a synchronous response.', { param: 'id' })
    await cancelUnfinished(services, row)
    return presentBackground(services, row)
  },
})

export const storedResponseRoutes: Endpoint[] = [readResponse, deleteResponse, cancelResponse, listInputItems]
