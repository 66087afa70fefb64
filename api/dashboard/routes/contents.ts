import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import type { ContentLogServices } from '../../../shared/content-log/content-log-services.ts'
import {
  type ContentSettingsFields,
  getContentSettings,
  updateContentSettings,
} from '../../../shared/content-log/content-settings.ts'
import type { RequestContent as Row } from '../../../shared/generated/prisma/client.ts'
import { contentColumns, contentSetting, maxContentDays, maxLoggingDays } from '../../../shared/keys/content-logging.ts'
import type { Platform } from '../../../shared/platform.ts'
import { endpoint } from '../../endpoint.ts'
import { eraseAnswers } from '../../idempotency/stored-answer.ts'
import type { ContentSettings, RequestContent } from '../wire/contents.ts'
import type { KeyAnswer } from '../wire/keys.ts'
import { findKey, presentOne } from './keys.ts'

const base = '/dashboard/api/organisations/{organisation}'
const shared = { tag: 'Dashboard', access: { permission: 'manage' } } as const

function present({ sealer }: Platform, fields: ContentSettingsFields): ContentSettings {
  return {
    ...fields,
    max_retention_days: maxContentDays,
    max_logging_days: maxLoggingDays,
    encrypted: sealer.encrypts,
  }
}

const readSettings = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/content-settings`,
  summary: 'Retrieve the settings of input and output logging',
  answers: { 200: { description: 'The settings.' } },
  async handle({ services, organisationId }): Promise<ContentSettings> {
    return present(services, await getContentSettings(services, organisationId))
  },
})

const patchSettings = endpoint({
  ...shared,
  method: 'patch',
  path: `${base}/content-settings`,
  summary: 'Update the settings of input and output logging',
  body: z.strictObject({
    content_logging: contentSetting.optional(),
    retention_days: z.int().min(1).max(maxContentDays).optional(),
    redact_emails: z.boolean().optional(),
  }),
  answers: { 200: { description: 'The updated settings.' } },
  async handle({ services, organisationId, body, actor }): Promise<ContentSettings> {
    return present(services, await updateContentSettings(services, organisationId, body, actor))
  },
})

const setOfKey = endpoint({
  ...shared,
  method: 'patch',
  path: `${base}/keys/{key}/content-logging`,
  summary: 'Set which input and output of a key is logged',
  body: z.strictObject({ content_logging: contentSetting }),
  answers: { 200: { description: 'The updated key.' } },
  async handle(request): Promise<KeyAnswer> {
    const { services, organisationId, body, actor } = request
    const { hash } = await findKey(request)
    const columns = contentColumns(body.content_logging, services.clock.now())
    const row = await services.keys.setContentLogging(organisationId, hash, columns, actor)
    return { data: await presentOne(request, row) }
  },
})

const read = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/requests/{id}/content`,
  summary: 'Retrieve the logged input and output of a request; the audit log records it',
  answers: { 200: { description: 'The input and output.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params, actor, client }): Promise<RequestContent> {
    const row = await findRow(services, organisationId, params.id!)
    client.collect(row.inputBytes + (row.outputBytes ?? 0))
    const content = await services.contents.view(row, actor)
    if (!content) throw new GatewayError('not_found', 'The input and output of this request were deleted.')
    return content
  },
})

const remove = endpoint({
  ...shared,
  method: 'delete',
  path: `${base}/requests/{id}/content`,
  summary: 'Delete the logged input and output of a request',
  answers: { 200: { description: 'Deleted.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params, actor }): Promise<{ deleted: true }> {
    const row = await findRow(services, organisationId, params.id!)
    await eraseAnswers(services, organisationId, row.id)
    await services.contents.delete(row, actor)
    return { deleted: true }
  },
})

async function findRow({ contents, clock }: ContentLogServices, organisationId: string, id: string): Promise<Row> {
  const row = await contents.find(organisationId, id, clock.now())
  if (!row) throw new GatewayError('not_found', 'No input and output of this request is logged.', { param: 'id' })
  return row
}

export const contentsRoutes = [readSettings, patchSettings, setOfKey, read, remove]
