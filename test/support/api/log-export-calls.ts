import { operatorActor } from '../../../shared/io/audit.ts'
import type { Account, Gateway } from '../gateway.ts'

type Call = { path?: string; key?: string; body?: object }
type Documented = { success: () => Call[] | Promise<Call[]>; errors: () => Call[] }
type World = () => { gateway: Gateway; account: Account; provisioning: string }

const base = '/api/v1/log-exports'
/** A public address that no test connects to. */
const url = 'https://93.184.215.14/logs'
const window = { from: '2026-11-01T00:00:00Z', to: '2026-11-02T00:00:00Z' }

/** The path of a new export, for which there is always room. */
export async function madeExport({ services }: Gateway, organisationId: string): Promise<string> {
  const { logExports, db } = services
  await db.logExport.deleteMany({ where: { organisationId } })
  const fields = { name: 'SIEM', kind: 'https', url, streams: ['requests' as const] } as const
  const { row } = await logExports.create(organisationId, { ...fields, streams: [...fields.streams] }, operatorActor)
  // Nothing is sent to it: it is refused.
  await db.logExport.update({ where: { id: row.id }, data: { url: 'http://127.0.0.1:1/logs' } })
  return `${base}/${row.id}`
}

/** A replay of an export. */
async function madeReplay({ services }: Gateway, organisationId: string, path: string): Promise<string> {
  const id = path.slice(base.length + 1)
  const [replay] = await services.logExports.replay(organisationId, id, window, operatorActor)
  return `${path}/replays/${replay!.id}`
}

/** Real calls of the routes of log exports, as documented: by their names in the OpenAPI document. */
export function logExportCalls(world: World): Record<string, Documented> {
  const path = () => madeExport(world().gateway, world().account.organisationId)
  const nowhere = `${base}/exp_none`
  const strangers = (body?: object): Call[] =>
    [{}, { key: `svc_pk_${'a'.repeat(40)}` }, { key: world().account.live }].map(call => ({
      ...call,
      ...(body && { body }),
    }))
  const create = (...bodies: object[]): Call[] => bodies.map(body => ({ key: world().provisioning, body }))
  const s3 = { kind: 's3', bucket: 'logs', access_key_id: 'id', secret_access_key: 'secret' }
  const one = (below = '', body?: object): Documented => ({
    success: async () => [{ key: world().provisioning, path: `${await path()}${below}`, ...(body && { body }) }],
    errors: () => [
      ...strangers(body),
      { key: world().provisioning, path: `${nowhere}${below}`, ...(body && { body }) },
    ],
  })
  return {
    [`GET ${base}`]: {
      success: async () => [{ path: (await path()) && base, key: world().provisioning }],
      errors: strangers,
    },
    [`POST ${base}`]: {
      success: () =>
        create(
          { name: 'a', kind: 'https', url, streams: ['requests'] },
          { name: 'b', kind: 'otlp', url, streams: ['content'], format: 'json', headers: { 'x-key': 'k' } },
          { name: 'c', streams: ['audit'], ...s3, prefix: 'gateway', fields: { audit: ['action'] } },
        ),
      errors: () => [
        ...strangers({ name: 'a', kind: 'https', url, streams: ['requests'] }),
        ...create(
          { name: 'a', kind: 'https', url: 'https://127.0.0.1/', streams: ['requests'] },
          { name: 'a', kind: 'ftp', url, streams: ['requests'] },
          { kind: 'https', url, streams: ['requests'] },
        ),
      ],
    },
    [`GET ${base}/{id}`]: one(),
    [`PATCH ${base}/{id}`]: one('', { enabled: false, interval_s: 60 }),
    [`DELETE ${base}/{id}`]: one(),
    [`POST ${base}/{id}/roll-secret`]: one('/roll-secret'),
    [`POST ${base}/{id}/test`]: one('/test'),
    [`POST ${base}/{id}/replays`]: one('/replays', window),
    [`POST ${base}/{id}/replays/{replay}/cancel`]: {
      success: async () => {
        const { gateway, account, provisioning } = world()
        const replay = await madeReplay(gateway, account.organisationId, await path())
        return [{ key: provisioning, path: `${replay}/cancel` }]
      },
      errors: () => [...strangers(), { key: world().provisioning, path: `${nowhere}/replays/replay_none/cancel` }],
    },
  }
}
