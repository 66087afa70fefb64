import type { Account, Gateway } from '../gateway.ts'
import { chatLine } from './gateway.ts'

type Call = { path?: string; key?: string; body?: object; headers?: Record<string, string> }
type Documented = { success: () => Call[] | Promise<Call[]>; errors: () => Call[] }

const valid = { requests: [chatLine('a', 'gpt-4o-mini', 'Hello')], metadata: { nightly: 'yes' } }

/** Real calls of the routes of batches, as documented: by their names in the OpenAPI document. */
export function batchCalls(
  world: () => { gateway: Gateway; account: Account; provisioning: string },
): Record<string, Documented> {
  const created = async () => {
    const { gateway, account } = world()
    const answer = await gateway.fetch('/v1/batches', { key: account.test, body: valid })
    return `/v1/batches/${((await answer.json()) as { id: string }).id}`
  }
  const nobody = '/v1/batches/batch_nobody'
  const missing = (path: string): Call[] => [
    { path },
    { key: world().provisioning, path },
    { key: world().account.test, path },
  ]
  return {
    'POST /v1/batches': {
      success: () => [
        { key: world().account.test, body: valid },
        { key: world().account.live, body: { ...valid, batch_routing: 'gateway' } },
      ],
      errors: () => [
        { body: valid },
        { key: world().provisioning, body: valid },
        ...[{}, { ...valid, more: 1 }, { input_file_id: 'file-nobody', endpoint: '/v1/embeddings' }].map(body => ({
          key: world().account.test,
          body,
        })),
      ],
    },
    'GET /v1/batches': {
      success: async () => [{ key: world().account.test }, { key: world().account.test, path: '/v1/batches?limit=1' }],
      errors: () => [{}, { key: world().account.test, path: '/v1/batches?limit=0' }],
    },
    'GET /v1/batches/{id}': {
      success: async () => [{ key: world().account.test, path: await created() }],
      errors: () => missing(nobody),
    },
    'POST /v1/batches/{id}/cancel': {
      success: async () => [{ key: world().account.test, path: `${await created()}/cancel`, body: {} }],
      errors: () => missing(`${nobody}/cancel`).map(call => ({ ...call, body: {} })),
    },
  }
}
