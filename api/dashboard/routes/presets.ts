import { z } from 'zod'
import { presetConfig, presetName } from '../../../shared/presets/preset-config.ts'
import { endpoint } from '../../endpoint.ts'
import { currentVersion, nameOf, presentPreset, presentVersion } from '../../routes/presets.ts'
import type { PresetAnswer, PresetsAnswer, PresetVersionsAnswer } from '../wire/presets.ts'

const base = '/dashboard/api/organisations/{organisation}/presets'
const forMembers = { tag: 'Dashboard', access: { permission: 'use' } } as const
const forAdmins = { tag: 'Dashboard', access: { permission: 'manage' } } as const
const onePreset = { 200: { description: 'The preset.' } }

export const presetsRoutes = [
  endpoint({
    ...forMembers,
    method: 'get',
    path: base,
    summary: 'List presets',
    answers: { 200: { description: 'The presets, by name.' } },
    handle: async ({ services, organisationId }): Promise<PresetsAnswer> => ({
      data: (await services.presets.list(organisationId)).map(presentPreset),
    }),
  }),
  endpoint({
    ...forMembers,
    method: 'get',
    path: `${base}/{name}/versions`,
    summary: 'List the versions of a preset',
    answers: { 200: { description: 'The versions, newest first.' } },
    errors: ['not_found'],
    async handle({ services, organisationId, params }): Promise<PresetVersionsAnswer> {
      const { preset, versions } = await services.presets.versions(organisationId, nameOf(params))
      return { data: versions.map(row => presentVersion(row, preset)) }
    },
  }),
  endpoint({
    ...forAdmins,
    method: 'post',
    path: base,
    summary: 'Create or change a preset',
    body: z.strictObject({ name: presetName, config: presetConfig }),
    answers: onePreset,
    errors: ['quota_exceeded'],
    handle: async ({ services, organisationId, actor, body: { name, config } }): Promise<PresetAnswer> => ({
      data: presentPreset(await services.presets.save(organisationId, name, config, actor)),
    }),
  }),
  endpoint({
    ...forAdmins,
    method: 'post',
    path: `${base}/{name}/current`,
    summary: 'Use a version of a preset',
    body: currentVersion,
    answers: onePreset,
    errors: ['not_found'],
    handle: async ({ services, organisationId, actor, params, body }): Promise<PresetAnswer> => ({
      data: presentPreset(await services.presets.use(organisationId, nameOf(params), body.version, actor)),
    }),
  }),
  endpoint({
    ...forAdmins,
    method: 'delete',
    path: `${base}/{name}`,
    summary: 'Delete a preset',
    answers: { 200: { description: 'Deleted.' } },
    errors: ['not_found'],
    async handle({ services, organisationId, actor, params }): Promise<{ deleted: true }> {
      await services.presets.remove(organisationId, nameOf(params), actor)
      return { deleted: true }
    },
  }),
]
