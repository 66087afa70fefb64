import { operatorActor } from '../../../shared/io/audit.ts'
import type { Account, Gateway } from '../gateway.ts'

type Call = { path?: string; key?: string; body?: object }
type Documented = { success: () => Call[] | Promise<Call[]>; errors: () => Call[] }

const base = '/api/v1/webhook-endpoints'
let made = 0
/** A public address that no test connects to. */
const newUrl = () => `https://93.184.215.14/hooks/${++made}`

/** The example of the documentation with a URL that needs no name server. */
export const withAddress = (example: unknown) => ({ ...(example as object), url: newUrl() })

/** The path of a new endpoint. */
export async function madeEndpoint({ services }: Gateway, organisationId: string): Promise<string> {
  const fields = { url: newUrl(), events: ['*'], signing_secret: 'own' } as const
  const { row } = await services.webhookEndpoints.create(
    organisationId,
    { ...fields, events: [...fields.events] },
    operatorActor,
  )
  return `${base}/${row.id}`
}

type World = () => { gateway: Gateway; account: Account; provisioning: string }

/** Real calls of the routes of webhook endpoints, as documented: by their names in the OpenAPI document. */
export function webhookEndpointCalls(world: World): Record<string, Documented> {
  const path = () => madeEndpoint(world().gateway, world().account.organisationId)
  const nowhere = `${base}/whe_none`
  const strangers = (body?: object): Call[] =>
    [{}, { key: `svc_pk_${'a'.repeat(40)}` }, { key: world().account.live }].map(call => ({
      ...call,
      ...(body && { body }),
    }))
  const create = (...bodies: object[]): Call[] => bodies.map(body => ({ key: world().provisioning, body }))
  return {
    [`GET ${base}`]: {
      success: async () => [{ path: (await path()) && base, key: world().provisioning }],
      errors: strangers,
    },
    [`POST ${base}`]: {
      success: () =>
        create(
          { url: newUrl(), events: ['*'] },
          { url: newUrl(), events: ['job.*', 'key.blocked'], signing_secret: 'organisation', enabled: false },
        ),
      errors: () => [
        ...strangers({ url: newUrl(), events: ['*'] }),
        ...create(
          { url: newUrl(), events: [] },
          { url: newUrl(), events: ['job.lost'] },
          { url: 'https://127.0.0.1/', events: ['*'] },
          { events: ['*'] },
          { url: newUrl(), events: ['*'], colour: 1 },
        ),
      ],
    },
    [`GET ${base}/{id}`]: {
      success: async () => [{ key: world().provisioning, path: await path() }],
      errors: () => [...strangers(), { key: world().provisioning, path: nowhere }],
    },
    [`PATCH ${base}/{id}`]: {
      success: async () => [
        { key: world().provisioning, path: await path(), body: { url: newUrl(), events: ['batch.*'], enabled: false } },
      ],
      errors: () => [
        ...strangers({}),
        { key: world().provisioning, path: nowhere, body: {} },
        { key: world().provisioning, path: nowhere, body: { url: 'ftp://example.com' } },
        { key: world().provisioning, path: nowhere, body: { events: 'job.*' } },
      ],
    },
    [`DELETE ${base}/{id}`]: {
      success: async () => [{ key: world().provisioning, path: await path() }],
      errors: () => [...strangers(), { key: world().provisioning, path: nowhere }],
    },
    [`POST ${base}/{id}/roll-secret`]: {
      success: async () => [{ key: world().provisioning, path: `${await path()}/roll-secret` }],
      errors: () => [...strangers(), { key: world().provisioning, path: `${nowhere}/roll-secret` }],
    },
  }
}
