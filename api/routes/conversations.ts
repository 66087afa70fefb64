import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { unixSeconds } from '../../shared/base/time.ts'
import { common } from '../../shared/kinds/media.ts'
import { responsesItem } from '../../shared/kinds/responses.ts'
import { addItems, createConversation } from '../../shared/responses/conversations.ts'
import { conversationNotFound } from '../../shared/responses/earlier.ts'
import { shownItem } from '../../shared/responses/present.ts'
import type { Services } from '../../shared/services.ts'
import type { Conversation, ListedItem } from '../../shared/store/conversations.ts'
import type { FileOwner } from '../../shared/store/files.ts'
import { type Endpoint, endpoint } from '../endpoint.ts'
import { admitFree } from '../middleware/key.ts'
import { page } from '../schemas/core.ts'
import { conversation, responseItem } from '../schemas/responses.ts'
import { paging, readPage } from './paging.ts'

const shared = { tag: 'Conversations', access: { scope: 'chat' } } as const
const maxBodyBytes = 32 * 1024 * 1024
const maxItems = 1_000

const items = z
  .array(responsesItem.refine(item => item.type !== 'item_reference', 'references to items cannot be added.'))
  .max(maxItems)
  .describe('Items as in the `input` of a response.')
const metadata = common.metadata.nullable()
const example = [{ type: 'message', role: 'user', content: 'Hello!' }]

function present({ id, createdAt, metadata }: Conversation) {
  return { id, object: 'conversation', created_at: unixSeconds(createdAt), metadata }
}

function presentItem({ id, item }: ListedItem) {
  return shownItem(item, id)
}

/** Finds a conversation visible to the key. Throws 404. */
async function find({ conversations }: Services, id: string, owner: FileOwner): Promise<Conversation> {
  const found = await conversations.find(id, owner)
  if (!found) throw conversationNotFound(id, 'id')
  return found
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
  body: z.object({ items: items.nullish(), metadata }).meta({ id: 'CreateConversationRequest' }),
  maxBodyBytes,
  example: { items: example },
  answers: { 200: { description: 'The conversation.', schema: conversation } },
  errors: ['unsupported_capability', 'quota_exceeded'],
  async handle({ services, apiKey, body, keep, ctx }) {
    ctx.set(await admitFree(services, apiKey))
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
  async handle({ services, apiKey, params, ctx }) {
    ctx.set(await admitFree(services, apiKey))
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
  async handle({ services, apiKey, params, body, ctx }) {
    ctx.set(await admitFree(services, apiKey))
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
  async handle({ services, apiKey, params, ctx }) {
    ctx.set(await admitFree(services, apiKey))
    const id = params.id!
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
  async handle({ services, apiKey, params, body, keep, ctx }) {
    ctx.set(await admitFree(services, apiKey))
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
  query: z.object(paging),
  answers: { 200: { description: 'A page of items.', schema: itemPage } },
  errors: ['not_found'],
  async handle({ services, apiKey, params, query, ctx }) {
    ctx.set(await admitFree(services, apiKey))
    const { id } = await find(services, params.id!, apiKey.policy)
    const read = async (page: Parameters<Services['conversations']['listItems']>[1]) => {
      const rows = await services.conversations.listItems(id, page)
      if (rows) return rows
      throw new GatewayError('not_found', 'There is no item of that id to list after.', { param: 'after' })
    }
    return readPage(query, read, async rows => rows.map(presentItem))
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
  async handle({ services, apiKey, params, ctx }) {
    ctx.set(await admitFree(services, apiKey))
    const { id } = await find(services, params.id!, apiKey.policy)
    const item = await services.conversations.item(id, params.item!)
    if (!item) throw itemNotFound()
    return presentItem(item)
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
  async handle({ services, apiKey, params, ctx }) {
    ctx.set(await admitFree(services, apiKey))
    const found = await find(services, params.id!, apiKey.policy)
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
