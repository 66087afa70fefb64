import { z } from 'zod'
import { validate } from '../../shared/base/validate.ts'
import type { PresetVersion } from '../../shared/generated/prisma/client.ts'
import { type PresetConfig, presetConfig, presetName } from '../../shared/presets/preset-config.ts'
import { maxVersions, type StoredPreset } from '../../shared/presets/presets.ts'
import { endpoint } from '../endpoint.ts'

const version = z.int().min(1).max(maxVersions)
const shownConfig = z.looseObject({ model: z.string().optional() }).describe('As it was saved.')
const preset = z
  .strictObject({
    object: z.literal('preset'),
    name: z.string(),
    version: version.describe('The version that requests without a version get.'),
    latest_version: version,
    config: shownConfig,
    created_by: z.string().describe('Who made this version.'),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: 'Preset' })
const presetVersion = z
  .strictObject({
    object: z.literal('preset.version'),
    version,
    is_current: z.boolean(),
    config: shownConfig,
    created_by: z.string(),
    created_at: z.iso.datetime(),
  })
  .meta({ id: 'PresetVersion' })

/** A preset as the API and the dashboard show it. */
export function presentPreset(row: StoredPreset) {
  const { name, current, latest, config, createdBy, createdAt, updatedAt } = row
  return {
    object: 'preset' as const,
    name,
    version: current,
    latest_version: latest,
    config,
    created_by: createdBy,
    created_at: createdAt.toISOString(),
    updated_at: updatedAt.toISOString(),
  }
}

/** A version of a preset, as they show it. */
export function presentVersion(row: PresetVersion, { current }: StoredPreset) {
  return {
    object: 'preset.version' as const,
    version: row.version,
    is_current: row.version === current,
    config: row.config as PresetConfig,
    created_by: row.createdBy,
    created_at: row.createdAt.toISOString(),
  }
}

/** The name of a preset in a path. Throws 400. */
export function nameOf(params: Record<string, string>): string {
  return validate(z.strictObject({ name: presetName }), { name: params.name }).name
}

/** What makes another version the current one. */
export const currentVersion = z
  .strictObject({ version: version.describe('The version that requests without one get.') })
  .meta({ id: 'UsePresetVersionRequest' })

const shared = { tag: 'Presets', access: 'provisioning' } as const
const base = '/api/v1/presets'
const one = z.strictObject({ data: preset }).meta({ id: 'PresetResponse' })

export const presetRoutes = [
  endpoint({
    ...shared,
    method: 'get',
    path: base,
    operationId: 'listPresets',
    summary: 'List presets',
    answers: {
      200: {
        description: 'The presets, by name.',
        schema: z.strictObject({ data: z.array(preset) }).meta({ id: 'PresetList' }),
      },
    },
    handle: async ({ services, organisationId }) => ({
      data: (await services.presets.list(organisationId)).map(presentPreset),
    }),
  }),
  endpoint({
    ...shared,
    method: 'get',
    path: `${base}/{name}`,
    operationId: 'getPreset',
    summary: 'Retrieve a preset',
    answers: { 200: { description: 'The preset.', schema: one } },
    errors: ['not_found'],
    handle: async ({ services, organisationId, params }) => ({
      data: presentPreset(await services.presets.get(organisationId, nameOf(params))),
    }),
  }),
  endpoint({
    ...shared,
    method: 'post',
    path: `${base}/{name}`,
    operationId: 'savePreset',
    summary: 'Create or change a preset',
    description:
      'Makes a new version, which becomes the current one. Requests use it within a second. The same configuration as the current one makes no version.',
    body: presetConfig,
    example: { model: 'auto', system: 'You answer questions of customers.', temperature: 0.3 },
    answers: { 200: { description: 'The preset.', schema: one } },
    errors: ['quota_exceeded'],
    handle: async ({ services, organisationId, actor, params, body }) => ({
      data: presentPreset(await services.presets.save(organisationId, nameOf(params), body, actor)),
    }),
  }),
  endpoint({
    ...shared,
    method: 'get',
    path: `${base}/{name}/versions`,
    operationId: 'listPresetVersions',
    summary: 'List the versions of a preset',
    answers: {
      200: {
        description: 'The versions, newest first.',
        schema: z.strictObject({ data: z.array(presetVersion) }).meta({ id: 'PresetVersionList' }),
      },
    },
    errors: ['not_found'],
    async handle({ services, organisationId, params }) {
      const { preset, versions } = await services.presets.versions(organisationId, nameOf(params))
      return { data: versions.map(row => presentVersion(row, preset)) }
    },
  }),
  endpoint({
    ...shared,
    method: 'post',
    path: `${base}/{name}/current`,
    operationId: 'usePresetVersion',
    summary: 'Use a version of a preset',
    description: 'Makes an earlier or later version the current one, for instance to undo a change.',
    body: currentVersion,
    example: { version: 1 },
    answers: { 200: { description: 'The preset.', schema: one } },
    errors: ['not_found'],
    handle: async ({ services, organisationId, actor, params, body }) => ({
      data: presentPreset(await services.presets.use(organisationId, nameOf(params), body.version, actor)),
    }),
  }),
  endpoint({
    ...shared,
    method: 'delete',
    path: `${base}/{name}`,
    operationId: 'deletePreset',
    summary: 'Delete a preset',
    description: 'With all its versions: requests that name it are refused.',
    answers: {
      200: {
        description: 'Deleted.',
        schema: z
          .strictObject({ data: z.strictObject({ name: z.string(), deleted: z.literal(true) }) })
          .meta({ id: 'DeletedPreset' }),
      },
    },
    errors: ['not_found'],
    async handle({ services, organisationId, actor, params }) {
      const name = nameOf(params)
      await services.presets.remove(organisationId, name, actor)
      return { data: { name, deleted: true } }
    },
  }),
]
