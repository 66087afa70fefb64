import type { Account, Gateway } from '../gateway.ts'
import { answerOf } from '../jobs/gateway.ts'
import { delayed, path } from './jobs.ts'

type Call = { path?: string; key?: string; body?: unknown; headers?: Record<string, string> }
type Documented = { success: () => Call[] | Promise<Call[]>; errors: () => Call[] }

const body = delayed('Hello later', { model: 'gpt-5.6-luna' })
const nobody = `${path}/ajob_nobody`

/** Real calls of the routes of delayed jobs, as documented: by their names in the OpenAPI document. */
export function delayedCalls(
  world: () => { gateway: Gateway; account: Account; provisioning: string },
): Record<string, Documented> {
  const created = async () => {
    const { gateway, account } = world()
    return `${path}/${(await answerOf(await gateway.fetch(path, { key: account.test, body }))).id}`
  }
  const strangers = (at: string): Call[] => [{ path: at }, { key: world().provisioning, path: at }]
  const missing = (at: string): Call[] => [...strangers(at), { key: world().account.test, path: at }]
  return {
    'POST /v1/jobs': {
      success: () => [
        { key: world().account.test, body },
        { key: world().account.test, body: { ...body, completion_window: '6h', metadata: { a: 'b' } } },
      ],
      errors: (): Call[] => [
        { body },
        { key: world().provisioning, body },
        ...['{', {}, { ...body, colour: 1 }, { ...body, completion_window: '2h' }].map(bad => ({
          key: world().account.test,
          body: bad,
        })),
        ...[{ stream: true }, { model: 'nope' }, { messages: [] }].map(more => ({
          key: world().account.test,
          body: { ...body, body: { ...body.body, ...more } },
        })),
        { key: world().account.live, body },
        { key: world().account.test, body, headers: { prefer: 'wait=soon' } },
        { key: world().account.test, body, headers: { 'content-type': 'text/plain' } },
      ],
    },
    'GET /v1/jobs': {
      success: async () => {
        await created()
        return [{ key: world().account.test }, { key: world().account.test, path: `${path}?limit=1&order=asc` }]
      },
      errors: () => [
        ...strangers(path),
        { key: world().account.test, path: `${path}?limit=0` },
        { key: world().account.test, path: `${path}?after=ajob_nobody` },
      ],
    },
    'GET /v1/jobs/{id}': {
      success: async () => [{ key: world().account.test, path: await created() }],
      errors: () => missing(nobody),
    },
    'POST /v1/jobs/{id}/cancel': {
      success: async () => [{ key: world().account.test, path: `${await created()}/cancel` }],
      errors: () => missing(`${nobody}/cancel`),
    },
  }
}
