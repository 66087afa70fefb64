import { operatorActor } from '../../../shared/io/audit.ts'
import type { Account, Gateway } from '../gateway.ts'

type Call = { path?: string; key?: string; body?: object }
type Documented = { success: () => Call[] | Promise<Call[]>; errors: () => Call[] }

const base = '/api/v1/provider-keys'
/** No free request of this provider needs a key, so nothing is asked. */
const fields = { provider: 'magic_hour', name: 'Production', secret: 'mhk_live_0123456789' }

/** The path of a new own provider key. */
export async function madeProviderKey({ services }: Gateway, organisationId: string): Promise<string> {
  return `${base}/${(await services.providerKeys.create(organisationId, fields, operatorActor)).id}`
}

/** Real calls of the routes of own provider keys, as documented: by their names in the OpenAPI document. */
export function providerKeyCalls(
  world: () => { gateway: Gateway; account: Account; provisioning: string },
): Record<string, Documented> {
  const path = () => madeProviderKey(world().gateway, world().account.organisationId)
  const nowhere = `${base}/pkey_none`
  const strangers = (more: object = {}): Call[] => [more, { key: world().account.live, ...more }]
  const known = (more: object): Call => ({ key: world().provisioning, ...more })
  const one = async (more: object = {}) => [known({ path: await path(), ...more })]
  return {
    [`GET ${base}`]: { success: async () => [known({ path: (await path()) && base })], errors: strangers },
    [`POST ${base}`]: {
      success: () => [known({ body: fields })],
      errors: () => [
        ...strangers({ body: fields }),
        ...[{ provider: 'nobody' }, { secret: 'no' }, { name: '' }, { models: ['nothing'] }, { colour: 1 }].map(wrong =>
          known({ body: { ...fields, ...wrong } }),
        ),
      ],
    },
    [`GET ${base}/{id}`]: { success: () => one(), errors: () => [...strangers(), known({ path: nowhere })] },
    [`PATCH ${base}/{id}`]: {
      success: () => one({ body: { enabled: false, name: 'Spare' } }),
      errors: () => [...strangers({ body: {} }), known({ path: nowhere, body: {} })],
    },
    [`POST ${base}/{id}/test`]: {
      success: async () => [known({ path: `${await path()}/test` })],
      errors: () => [...strangers(), known({ path: `${nowhere}/test` })],
    },
    [`DELETE ${base}/{id}`]: { success: () => one(), errors: () => [...strangers(), known({ path: nowhere })] },
  }
}
