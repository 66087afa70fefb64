import { exportPatch, newExport, newReplay } from '../../../shared/log-exports/settings.ts'
import { testExport } from '../../../shared/log-exports/test-export.ts'
import { endpoint } from '../../endpoint.ts'
import { presentExport, presentReplay } from '../../routes/present-log-export.ts'
import type {
  ExportAnswer,
  ExportSecretAnswer,
  ExportsAnswer,
  ExportTestAnswer,
  ReplayAnswer,
  ReplaysAnswer,
} from '../wire/log-exports.ts'

const base = '/dashboard/api/organisations/{organisation}/log-exports'
// Addresses of receivers may contain secrets.
const forAdmins = { tag: 'Dashboard', access: { permission: 'manage' } } as const

const listExports = endpoint({
  ...forAdmins,
  method: 'get',
  path: base,
  summary: 'List log exports',
  answers: { 200: { description: 'The exports with their state, oldest first.' } },
  async handle({ services, organisationId }): Promise<ExportsAnswer> {
    const rows = await services.logExports.list(organisationId)
    return { data: rows.map(row => presentExport(services, row)) }
  },
})

const createExport = endpoint({
  ...forAdmins,
  method: 'post',
  path: base,
  summary: 'Create a log export',
  body: newExport,
  answers: { 201: { description: 'The export with its secret, which is shown only once.' } },
  errors: ['url_not_allowed', 'quota_exceeded'],
  async handle({ services, organisationId, body, actor }): Promise<ExportSecretAnswer> {
    const { row, secret } = await services.logExports.create(organisationId, body, actor)
    return { data: presentExport(services, row), secret }
  },
})

const showExport = endpoint({
  ...forAdmins,
  method: 'get',
  path: `${base}/{export}`,
  summary: 'Retrieve a log export',
  answers: { 200: { description: 'The export with the state of its streams and replays.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params }): Promise<ExportAnswer> {
    return { data: presentExport(services, await services.logExports.get(organisationId, params.export!)) }
  },
})

const patchExport = endpoint({
  ...forAdmins,
  method: 'patch',
  path: `${base}/{export}`,
  summary: 'Update a log export',
  body: exportPatch,
  answers: { 200: { description: 'The updated export.' } },
  errors: ['not_found', 'url_not_allowed'],
  async handle({ services, organisationId, params, body, actor }): Promise<ExportAnswer> {
    const row = await services.logExports.update(organisationId, params.export!, body, actor)
    return { data: presentExport(services, row) }
  },
})

const deleteExport = endpoint({
  ...forAdmins,
  method: 'delete',
  path: `${base}/{export}`,
  summary: 'Delete a log export',
  answers: { 200: { description: 'Deleted.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params, actor }): Promise<{ deleted: true }> {
    await services.logExports.delete(organisationId, params.export!, actor)
    return { deleted: true }
  },
})

const rollSecret = endpoint({
  ...forAdmins,
  method: 'post',
  path: `${base}/{export}/roll-secret`,
  summary: 'Roll the secret of a log export; the old one signs as well for 24 hours',
  answers: { 200: { description: 'The export with its secret, which is shown only once.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params, actor }): Promise<ExportSecretAnswer> {
    const { row, secret } = await services.logExports.rollSecret(organisationId, params.export!, actor)
    return { data: presentExport(services, row), secret }
  },
})

const test = endpoint({
  ...forAdmins,
  method: 'post',
  path: `${base}/{export}/test`,
  summary: 'Send a sample to the destination of a log export',
  answers: { 200: { description: 'What the destination answered.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params }): Promise<ExportTestAnswer> {
    return testExport(services, await services.logExports.get(organisationId, params.export!))
  },
})

const createReplay = endpoint({
  ...forAdmins,
  method: 'post',
  path: `${base}/{export}/replays`,
  summary: 'Replay a window of a log export',
  body: newReplay,
  answers: { 201: { description: 'The replays, one per stream.' } },
  errors: ['not_found', 'quota_exceeded'],
  async handle({ services, organisationId, params, body, actor }): Promise<ReplaysAnswer> {
    const rows = await services.logExports.replay(organisationId, params.export!, body, actor)
    return { data: rows.map(presentReplay) }
  },
})

const cancelReplay = endpoint({
  ...forAdmins,
  method: 'post',
  path: `${base}/{export}/replays/{replay}/cancel`,
  summary: 'Cancel a replay of a log export',
  answers: { 200: { description: 'The replay.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params, actor }): Promise<ReplayAnswer> {
    const row = await services.logExports.cancelReplay(organisationId, params.export!, params.replay!, actor)
    return { data: presentReplay(row) }
  },
})

export const logExportRoutes = [
  ...[listExports, createExport, showExport, patchExport, deleteExport],
  ...[rollSecret, test, createReplay, cancelReplay],
]
