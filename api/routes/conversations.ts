import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { unixSeconds } from '../../shared/base/time.ts'
import type { ResponseWriter } from '../../shared/engine/response-writer.ts'
import type { FileOwner } from '../../shared/files/files.ts'
import { common } from '../../shared/kinds/media.ts'
import { refusedField } from '../../shared/kinds/refused-field.ts'
import { isReference, responsesItem } from '../../shared/kinds/responses.ts'
import { addItems, createConversation } from '../../shared/responses/conversations.ts'
import { shownItem } from '../../shared/responses/present.ts'
import { conversationNotFound } from '../../shared/responses/previous-items.ts'
import type { ResponseServices } from '../../shared/responses/response-services.ts'
import type { Conversation, ItemPlace, ListedItem } from '../../shared/responses/stored-conversations.ts'
import { type Endpoint, endpoint } from '../endpoint.ts'
import { eraseAnswers } from '../idempotency/stored-answer.ts'
import { page } from '../schemas/core.ts'
import { conversation, responseItem } from '../schemas/responses.ts'
import { paging, readPage } from './paging.ts'

const shared = { tag: 'Conversations', access: { scope: 'chat' }, free: true } as const
const maxBodyBytes = 32 * 1024 * 1024
/** Of one request, as OpenAI documents: "You may add up to 20 items at a time." */
const maxItems = 20
/** A page ends before the item that exceeds this. */
const maxPageBytes = 8 * 1024 * 1024

const items = z
  .array(responsesItem.refine(item => !isReference(item), 'references to items cannot be added.'))
  .max(maxItems)
  .describe('Items as in the `input` of a response.')
const metadata = common.metadata.nullable()
/** Mistral's conversations have the same path (@mistralai/mistralai, ConversationRequest), and answer at once. */
const inputsOfMistral = refusedField(
  'belongs to Mistral’s conversations, which are not offered: use POST /v1/responses.',
  value => value == null,
)
const example = [{ type: 'message', role: 'user', content: 'Hello!' }]

function present({ id, createdAt, metadata }: Conversation) {
  return { id, object: 'conversation', created_at: unixSeconds(createdAt), metadata }
}

function presentItem({ id, item }: ListedItem) {
  return shownItem(item, id)
}

/** Finds a conversation visible to the key. Throws 404. */
async function find({ conversations }: ResponseServices, id: string, owner: FileOwner): Promise<Conversation> {
  const found = await conversations.find(id, owner)
  if (!found) throw conversationNotFound(id, 'id')
  return found
}

/** The first of these items, which a page can have; at least one. */
function withinPage(places: readonly ItemPlace[]): readonly ItemPlace[] {
  let bytes = 0
  const end = places.findIndex(({ itemBytes }, index) => {
    bytes += itemBytes
    return index > 0 && bytes > maxPageBytes
  })
  return end < 0 ? places : places.slice(0, end)
}

/** Reads items, which count towards the memory of buffered answers until they are sent. */
async function readItems(
  { services: { conversations }, client }: { services: ResponseServices; client: ResponseWriter },
  places: readonly ItemPlace[],
) {
  client.collect(places.reduce((sum, { itemBytes }) => sum + itemBytes, 0))
  return (await conversations.readPlaces(places)).map(presentItem)
}

function itemNotFound(): GatewayError {
  return new GatewayError('not_found', 'There is no such item in the conversation.', { param: 'item' })
}

const create = endpoint({
  ...shared,
  method: 'post',
  path: '/v1/conversations',
  operationId: 'createConversation',
  summary: 'Create a conversation',
  description:
    'Its items precede the input of every response that names it as `conversation`. Requires that the organisation keeps responses.',
  body: z
    .object({ items: items.nullish(), metadata, inputs: inputsOfMistral })
    .meta({ id: 'CreateConversationRequest' }),
  maxBodyBytes,
  example: { items: example },
  answers: { 200: { description: 'The conversation.', schema: conversation } },
  errors: ['unsupported_capability', 'quota_exceeded'],
  async handle({ services, apiKey, body, keep }) {
    const input = { metadata: body.metadata ?? {}, items: body.items ?? [] }
    return present(await createConversation(services, apiKey.policy, input, (tx, row) => keep(tx, present(row))))
  },
})

const read = endpoint({
  ...shared,
  method: 'get',
  path: '/v1/conversations/{id}',
  operationId: 'getConversation',
  summary: 'Retrieve a conversation',
  answers: { 200: { description: 'The conversation.', schema: conversation } },
  errors: ['not_found'],
  async handle({ services, apiKey, params }) {
    return present(await find(services, params.id!, apiKey.policy))
  },
})

const update = endpoint({
  ...shared,
  method: 'post',
  path: '/v1/conversations/{id}',
  operationId: 'updateConversation',
  summary: 'Update a conversation',
  description: 'Replaces its metadata.',
  body: z.object({ metadata: metadata.unwrap().unwrap().nullable() }).meta({ id: 'UpdateConversationRequest' }),
  example: { metadata: { topic: 'greetings' } },
  answers: { 200: { description: 'The updated conversation.', schema: conversation } },
  errors: ['not_found'],
  async handle({ services, apiKey, params, body }) {
    const updated = await services.conversations.update(params.id!, apiKey.policy, body.metadata ?? {})
    if (!updated) throw conversationNotFound(params.id!, 'id')
    return present(updated)
  },
})

const remove = endpoint({
  ...shared,
  method: 'delete',
  path: '/v1/conversations/{id}',
  operationId: 'deleteConversation',
  summary: 'Delete a conversation',
  description: 'Deletes it with its items immediately. Responses that were stored in it remain.',
  answers: {
    200: {
      description: 'The conversation is deleted.',
      schema: z
        .strictObject({ id: z.string(), object: z.literal('conversation.deleted'), deleted: z.literal(true) })
        .meta({ id: 'DeletedConversation' }),
    },
  },
  errors: ['not_found'],
  async handle({ services, apiKey, params }) {
    const { id } = await find(services, params.id!, apiKey.policy)
    await eraseAnswers(services, apiKey.policy.organisationId, id)
    if (!(await services.conversations.delete(id, apiKey.policy))) throw conversationNotFound(id, 'id')
    return { id, object: 'conversation.deleted', deleted: true }
  },
})

const itemPage = page(responseItem, 'ConversationItemList')

const createItems = endpoint({
  ...shared,
  method: 'post',
  path: '/v1/conversations/{id}/items',
  operationId: 'createConversationItems',
  summary: 'Add items to a conversation',
  body: z.object({ items: items.min(1) }).meta({ id: 'CreateConversationItemsRequest' }),
  maxBodyBytes,
  example: { items: example },
  answers: { 200: { description: 'The added items.', schema: itemPage } },
  errors: ['not_found', 'unsupported_capability', 'quota_exceeded'],
  async handle({ services, apiKey, params, body, keep }) {
    const presentAll = (added: readonly ListedItem[]) => {
      const data = added.map(presentItem)
      return { object: 'list', data, has_more: false, first_id: data[0]!.id, last_id: data.at(-1)!.id }
    }
    const added = await addItems(services, apiKey.policy, params.id!, body.items, (tx, listed) =>
      keep(tx, presentAll(listed)),
    )
    return presentAll(added)
  },
})

const listItems = endpoint({
  ...shared,
  method: 'get',
  path: '/v1/conversations/{id}/items',
  operationId: 'listConversationItems',
  summary: 'List the items of a conversation',
  description: 'A page of long items has fewer of them than its `limit`; `has_more` tells whether others follow.',
  query: z.object(paging),
  answers: { 200: { description: 'A page of items.', schema: itemPage } },
  errors: ['not_found'],
  async handle(request) {
    const { services, apiKey, params, query } = request
    const { id } = await find(services, params.id!, apiKey.policy)
    const read = async (page: Parameters<ResponseServices['conversations']['listItems']>[1]) => {
      const rows = await services.conversations.listItems(id, page)
      if (rows) return rows
      throw new GatewayError('not_found', 'There is no item of that id to list after.', { param: 'after' })
    }
    return readPage(query, read, places => readItems(request, withinPage(places)))
  },
})

const readItem = endpoint({
  ...shared,
  method: 'get',
  path: '/v1/conversations/{id}/items/{item}',
  operationId: 'getConversationItem',
  summary: 'Retrieve an item of a conversation',
  answers: { 200: { description: 'The item.', schema: responseItem } },
  errors: ['not_found'],
  async handle(request) {
    const { services, apiKey, params } = request
    const { id } = await find(services, params.id!, apiKey.policy)
    const place = await services.conversations.findItem(id, params.item!)
    const [item] = place ? await readItems(request, [place]) : []
    if (!item) throw itemNotFound()
    return item
  },
})

const deleteItem = endpoint({
  ...shared,
  method: 'delete',
  path: '/v1/conversations/{id}/items/{item}',
  operationId: 'deleteConversationItem',
  summary: 'Delete an item of a conversation',
  answers: { 200: { description: 'The conversation.', schema: conversation } },
  errors: ['not_found'],
  async handle({ services, apiKey, params }) {
    const found = await find(services, params.id!, apiKey.policy)
    await eraseAnswers(services, apiKey.policy.organisationId, found.id)
    if (!(await services.conversations.deleteItem(found.id, params.item!))) throw itemNotFound()
    return present(found)
  },
})

export const conversationRoutes: Endpoint[] = [
  create,
  read,
  update,
  remove,
  createItems,
  listItems,
  readItem,
  deleteItem,
]
