import { z } from 'zod'
import type { Platform } from '../../../shared/platform.ts'
import {
  getResponseSettings,
  type ResponseSettingsFields,
  updateResponseSettings,
} from '../../../shared/responses/response-settings.ts'
import { endpoint } from '../../endpoint.ts'
import type { ResponseSettings } from '../wire/responses.ts'

const shared = {
  tag: 'Dashboard',
  path: '/dashboard/api/organisations/{organisation}/responses',
  access: { permission: 'manage' },
} as const

function present({ config }: Platform, fields: ResponseSettingsFields): ResponseSettings {
  return { ...fields, max_retention_days: config.responseRetentionDays }
}

const readSettings = endpoint({
  ...shared,
  method: 'get',
  summary: 'Retrieve the settings of stored responses',
  answers: { 200: { description: 'The settings.' } },
  async handle({ services, organisationId }): Promise<ResponseSettings> {
    return present(services, await getResponseSettings(services, organisationId))
  },
})

const patchSettings = endpoint({
  ...shared,
  method: 'patch',
  summary: 'Update the settings of stored responses',
  body: z.strictObject({
    keep_responses: z.boolean().optional(),
    response_retention_days: z.int().min(1).max(365).nullish(),
  }),
  answers: { 200: { description: 'The updated settings.' } },
  async handle({ services, organisationId, body, actor }): Promise<ResponseSettings> {
    return present(services, await updateResponseSettings(services, organisationId, body, actor))
  },
})

export const responsesRoutes = [readSettings, patchSettings]
