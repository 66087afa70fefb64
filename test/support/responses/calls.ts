import type { Account, Gateway } from '../gateway.ts'

type Call = { path?: string; key?: string; body?: object; headers?: Record<string, string> }
type Documented = { success: () => Call[] | Promise<Call[]>; errors: () => Call[] }

const body = { model: 'gpt-4o-mini', input: 'Hello' }
const items = [{ type: 'message', role: 'user', content: 'Hello' }]

/** The path of a new conversation with one item. */
export async function conversationPath(gateway: Gateway, key: string): Promise<string> {
  const answer = await gateway.fetch('/v1/conversations', { key, body: { items } })
  return `/v1/conversations/${((await answer.json()) as { id: string }).id}`
}

/** Real calls of the routes of stored responses and conversations, for an organisation that keeps them. */
export function storedResponseCalls(
  world: () => { gateway: Gateway; account: Account; provisioning: string },
): Record<string, Documented> {
  const asTest = (call: Call): Call => ({ key: world().account.test, ...call })
  const refusedAt = (path: string, more: Call = {}): Call[] => [
    { path, ...more },
    { key: world().provisioning, path, ...more },
    asTest({ path, ...more }),
  ]
  const responsePath = async (suffix = '', more: object = {}) => {
    const { gateway, account } = world()
    const answer = await gateway.fetch('/v1/responses', { key: account.test, body: { ...body, store: true, ...more } })
    return `/v1/responses/${((await answer.json()) as { id: string }).id}${suffix}`
  }
  const onResponse = (suffix: string): Documented => ({
    success: async () => [asTest({ path: await responsePath(suffix) })],
    errors: () => refusedAt(`/v1/responses/resp_nothing${suffix}`),
  })
  const onConversation = (suffix: string, more: Call = {}): Documented => ({
    success: async () => [
      asTest({ path: `${await conversationPath(world().gateway, world().account.test)}${suffix}`, ...more }),
    ],
    errors: () => refusedAt(`/v1/conversations/conv_nothing${suffix}`, more),
  })
  const onItem: Documented = {
    async success() {
      const { gateway, account } = world()
      const path = `${await conversationPath(gateway, account.test)}/items`
      const { data } = (await (await gateway.fetch(path, { key: account.test })).json()) as { data: { id: string }[] }
      return [asTest({ path: `${path}/${data[0]!.id}` })]
    },
    errors: () => refusedAt('/v1/conversations/conv_nothing/items/msg_1'),
  }
  return {
    'POST /v1/responses/input_tokens': {
      success: () => [asTest({ body })],
      errors: () => [
        { body },
        asTest({ body: {} }),
        asTest({ body: { ...body, previous_response_id: 'resp_nothing' } }),
      ],
    },
    'POST /v1/responses/compact': {
      success: () => [asTest({ body })],
      errors: () => [
        { body },
        asTest({ body: { model: body.model } }),
        asTest({ body: { ...body, model: 'nothing' } }),
      ],
    },
    'GET /v1/responses/{id}': onResponse(''),
    'DELETE /v1/responses/{id}': onResponse(''),
    'POST /v1/responses/{id}/cancel': {
      success: async () => [asTest({ path: await responsePath('/cancel', { background: true }) })],
      errors: () => refusedAt('/v1/responses/resp_nothing/cancel'),
    },
    'GET /v1/responses/{id}/input_items': onResponse('/input_items'),
    'POST /v1/conversations': {
      success: () => [asTest({ body: {} }), asTest({ body: { items, metadata: { a: 'b' } } })],
      errors: () => [{ body: {} }, asTest({ body: { items: 1 } })],
    },
    'GET /v1/conversations/{id}': onConversation(''),
    'POST /v1/conversations/{id}': onConversation('', { body: { metadata: { a: 'b' } } }),
    'DELETE /v1/conversations/{id}': onConversation(''),
    'POST /v1/conversations/{id}/items': onConversation('/items', { body: { items } }),
    'GET /v1/conversations/{id}/items': onConversation('/items'),
    'GET /v1/conversations/{id}/items/{item}': onItem,
    'DELETE /v1/conversations/{id}/items/{item}': onItem,
  }
}
