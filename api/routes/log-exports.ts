import { z } from 'zod'
import type { LogExportServices } from '../../shared/log-exports/export-services.ts'
import type { CreatedExport } from '../../shared/log-exports/log-exports.ts'
import { exportPatch, newExport, newReplay } from '../../shared/log-exports/settings.ts'
import { testExport } from '../../shared/log-exports/test-export.ts'
import { endpoint } from '../endpoint.ts'
import { logExport, logExportReplay, logExportTest } from '../schemas/log-exports.ts'
import { presentExport, presentReplay } from './present-log-export.ts'

const base = '/api/v1/log-exports'
const shared = { tag: 'Log exports', access: 'provisioning' } as const
const one = z.strictObject({ data: logExport }).meta({ id: 'LogExportResponse' })
const withSecret = z
  .strictObject({
    data: logExport,
    secret: z
      .string()
      .nullable()
      .describe('The secret that signs its batches, which is returned only once; null if they are not signed.'),
  })
  .meta({ id: 'LogExportWithSecret' })
const replays = z
  .strictObject({ object: z.literal('list'), data: z.array(logExportReplay) })
  .meta({ id: 'LogExportReplayList' })

const show = (services: LogExportServices, { row, secret }: CreatedExport) => ({
  data: presentExport(services, row),
  secret,
})

const listExports = endpoint({
  ...shared,
  method: 'get',
  path: base,
  operationId: 'listLogExports',
  summary: 'List log exports',
  answers: {
    200: {
      description: 'All exports of the organisation, oldest first; there are at most 10.',
      schema: z.strictObject({ object: z.literal('list'), data: z.array(logExport) }).meta({ id: 'LogExportList' }),
    },
  },
  async handle({ services, organisationId }) {
    const rows = await services.logExports.list(organisationId)
    return { object: 'list', data: rows.map(row => presentExport(services, row)) }
  },
})

const createExport = endpoint({
  ...shared,
  method: 'post',
  path: base,
  operationId: 'createLogExport',
  summary: 'Create a log export',
  description: 'Its streams begin with what is written from now on. A replay delivers what was written before.',
  body: newExport,
  example: { name: 'SIEM', kind: 'https', url: 'https://example.com/headgate', streams: ['requests', 'audit'] },
  answers: { 201: { description: 'The export with its secret, which is returned only once.', schema: withSecret } },
  errors: ['url_not_allowed', 'quota_exceeded'],
  async handle({ services, organisationId, actor, body, keep }) {
    return show(
      services,
      await services.logExports.create(organisationId, body, actor, (tx, made) => keep(tx, show(services, made))),
    )
  },
})

const readExport = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/{id}`,
  operationId: 'getLogExport',
  summary: 'Retrieve a log export',
  answers: { 200: { description: 'The export with the state of its streams and replays.', schema: one } },
  errors: ['not_found'],
  async handle({ services, organisationId, params }) {
    return { data: presentExport(services, await services.logExports.get(organisationId, params.id!)) }
  },
})

const updateExport = endpoint({
  ...shared,
  method: 'patch',
  path: `${base}/{id}`,
  operationId: 'updateLogExport',
  summary: 'Update a log export',
  description: 'An export that was disabled or paused continues where it was.',
  body: exportPatch,
  example: { enabled: true },
  answers: { 200: { description: 'The updated export.', schema: one } },
  errors: ['not_found', 'url_not_allowed'],
  async handle({ services, organisationId, params, body, actor }) {
    return { data: presentExport(services, await services.logExports.update(organisationId, params.id!, body, actor)) }
  },
})

const deleteExport = endpoint({
  ...shared,
  method: 'delete',
  path: `${base}/{id}`,
  operationId: 'deleteLogExport',
  summary: 'Delete a log export',
  answers: {
    200: {
      description: 'Nothing more is sent.',
      schema: z
        .strictObject({ data: z.strictObject({ id: z.string(), deleted: z.literal(true) }) })
        .meta({ id: 'DeletedLogExport' }),
    },
  },
  errors: ['not_found'],
  async handle({ services, organisationId, params, actor }) {
    await services.logExports.delete(organisationId, params.id!, actor)
    return { data: { id: params.id!, deleted: true } }
  },
})

const rollSecret = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{id}/roll-secret`,
  operationId: 'rollLogExportSecret',
  summary: 'Roll the secret of a log export',
  description: 'For 24 hours, its batches are signed with both the old and the new secret.',
  answers: { 200: { description: 'The export with its new secret.', schema: withSecret } },
  errors: ['not_found'],
  async handle({ services, organisationId, params, actor, keep }) {
    return show(
      services,
      await services.logExports.rollSecret(organisationId, params.id!, actor, (tx, made) =>
        keep(tx, show(services, made)),
      ),
    )
  },
})

const test = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{id}/test`,
  operationId: 'testLogExport',
  summary: 'Test a log export',
  description: 'Sends a sample to its destination and waits for the answer.',
  answers: { 200: { description: 'What the destination answered.', schema: logExportTest } },
  errors: ['not_found'],
  async handle({ services, organisationId, params }) {
    return testExport(services, await services.logExports.get(organisationId, params.id!))
  },
})

const createReplay = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{id}/replays`,
  operationId: 'createLogExportReplay',
  summary: 'Replay a window of a log export',
  description: 'Delivers the rows of a window once more, beside the live streams: one replay per stream.',
  body: newReplay,
  example: { from: '2026-11-01T00:00:00Z', to: '2026-11-02T00:00:00Z' },
  answers: { 201: { description: 'The replays.', schema: replays } },
  errors: ['not_found', 'quota_exceeded'],
  async handle({ services, organisationId, params, body, actor }) {
    const rows = await services.logExports.replay(organisationId, params.id!, body, actor)
    return { object: 'list', data: rows.map(presentReplay) }
  },
})

const cancelReplay = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{id}/replays/{replay}/cancel`,
  operationId: 'cancelLogExportReplay',
  summary: 'Cancel a replay',
  answers: {
    200: {
      description: 'The replay: one that was over stays as it was.',
      schema: z.strictObject({ data: logExportReplay }).meta({ id: 'LogExportReplayResponse' }),
    },
  },
  errors: ['not_found'],
  async handle({ services, organisationId, params, actor }) {
    const row = await services.logExports.cancelReplay(organisationId, params.id!, params.replay!, actor)
    return { data: presentReplay(row) }
  },
})

export const logExportRoutes = [
  ...[listExports, createExport, readExport, updateExport, deleteExport],
  ...[rollSecret, test, createReplay, cancelReplay],
]
