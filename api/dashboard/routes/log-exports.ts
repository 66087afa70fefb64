import type { Owner } from '../../../shared/log-exports/log-exports.ts'
import { exportPatch, newExport, newReplay } from '../../../shared/log-exports/settings.ts'
import { testExport } from '../../../shared/log-exports/test-export.ts'
import { type Access, type Endpoint, endpoint } from '../../endpoint.ts'
import { presentExport, presentReplay } from '../../routes/present-log-export.ts'
import type {
  ExportAnswer,
  ExportSecretAnswer,
  ExportsAnswer,
  ExportTestAnswer,
  ReplayAnswer,
  ReplaysAnswer,
} from '../wire/log-exports.ts'

/** Whose exports routes are about: an organisation's, or the operator's, which are of all organisations. */
type Exporter = { base: string; access: Access; ownerOf(organisationId: string): Owner }

const organisations: Exporter = {
  base: '/dashboard/api/organisations/{organisation}/log-exports',
  // Addresses of receivers may contain secrets.
  access: { permission: 'manage' },
  ownerOf: organisationId => organisationId,
}
const operators: Exporter = { base: '/dashboard/api/operator/log-exports', access: 'operator', ownerOf: () => null }

function settingRoutes({ base, access, ownerOf }: Exporter): Endpoint[] {
  const shared = { tag: 'Dashboard', access }
  return [
    endpoint({
      ...shared,
      method: 'get',
      path: base,
      summary: 'List log exports',
      answers: { 200: { description: 'The exports with their state, oldest first.' } },
      async handle({ services, organisationId }): Promise<ExportsAnswer> {
        const rows = await services.logExports.list(ownerOf(organisationId))
        return { data: rows.map(row => presentExport(services, row)) }
      },
    }),
    endpoint({
      ...shared,
      method: 'post',
      path: base,
      summary: 'Create a log export',
      body: newExport,
      answers: { 201: { description: 'The export with its secret, which is shown only once.' } },
      errors: ['url_not_allowed', 'quota_exceeded'],
      async handle({ services, organisationId, body, actor }): Promise<ExportSecretAnswer> {
        const { row, secret } = await services.logExports.create(ownerOf(organisationId), body, actor)
        return { data: presentExport(services, row), secret }
      },
    }),
    endpoint({
      ...shared,
      method: 'get',
      path: `${base}/{export}`,
      summary: 'Retrieve a log export',
      answers: { 200: { description: 'The export with the state of its streams and replays.' } },
      errors: ['not_found'],
      async handle({ services, organisationId, params }): Promise<ExportAnswer> {
        return { data: presentExport(services, await services.logExports.get(ownerOf(organisationId), params.export!)) }
      },
    }),
    endpoint({
      ...shared,
      method: 'patch',
      path: `${base}/{export}`,
      summary: 'Update a log export',
      body: exportPatch,
      answers: { 200: { description: 'The updated export.' } },
      errors: ['not_found', 'url_not_allowed'],
      async handle({ services, organisationId, params, body, actor }): Promise<ExportAnswer> {
        const row = await services.logExports.update(ownerOf(organisationId), params.export!, body, actor)
        return { data: presentExport(services, row) }
      },
    }),
    endpoint({
      ...shared,
      method: 'delete',
      path: `${base}/{export}`,
      summary: 'Delete a log export',
      answers: { 200: { description: 'Deleted.' } },
      errors: ['not_found'],
      async handle({ services, organisationId, params, actor }): Promise<{ deleted: true }> {
        await services.logExports.delete(ownerOf(organisationId), params.export!, actor)
        return { deleted: true }
      },
    }),
  ]
}

function deliveryRoutes({ base, access, ownerOf }: Exporter): Endpoint[] {
  const shared = { tag: 'Dashboard', access }
  return [
    endpoint({
      ...shared,
      method: 'post',
      path: `${base}/{export}/roll-secret`,
      summary: 'Roll the secret of a log export; the old one signs as well for 24 hours',
      answers: { 200: { description: 'The export with its secret, which is shown only once.' } },
      errors: ['not_found'],
      async handle({ services, organisationId, params, actor }): Promise<ExportSecretAnswer> {
        const { row, secret } = await services.logExports.rollSecret(ownerOf(organisationId), params.export!, actor)
        return { data: presentExport(services, row), secret }
      },
    }),
    endpoint({
      ...shared,
      method: 'post',
      path: `${base}/{export}/test`,
      summary: 'Send a sample to the destination of a log export',
      answers: { 200: { description: 'What the destination answered.' } },
      errors: ['not_found'],
      async handle({ services, organisationId, params }): Promise<ExportTestAnswer> {
        return testExport(services, await services.logExports.get(ownerOf(organisationId), params.export!))
      },
    }),
    endpoint({
      ...shared,
      method: 'post',
      path: `${base}/{export}/replays`,
      summary: 'Replay a window of a log export',
      body: newReplay,
      answers: { 201: { description: 'The replays, one per stream.' } },
      errors: ['not_found', 'quota_exceeded'],
      async handle({ services, organisationId, params, body, actor }): Promise<ReplaysAnswer> {
        const rows = await services.logExports.replay(ownerOf(organisationId), params.export!, body, actor)
        return { data: rows.map(presentReplay) }
      },
    }),
    endpoint({
      ...shared,
      method: 'post',
      path: `${base}/{export}/replays/{replay}/cancel`,
      summary: 'Cancel a replay of a log export',
      answers: { 200: { description: 'The replay.' } },
      errors: ['not_found'],
      async handle({ services, organisationId, params, actor }): Promise<ReplayAnswer> {
        const row = await services.logExports.cancelReplay(
          ownerOf(organisationId),
          params.export!,
          params.replay!,
          actor,
        )
        return { data: presentReplay(row) }
      },
    }),
  ]
}

export const logExportRoutes = [organisations, operators].flatMap(exporter => [
  ...settingRoutes(exporter),
  ...deliveryRoutes(exporter),
])
