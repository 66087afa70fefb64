import type { PresetConfig } from '../../../shared/presets/preset-config.ts'

/** Types shared by the page of presets and its routes. */

export type DashboardPreset = {
  name: string
  version: number
  latest_version: number
  config: PresetConfig
  created_by: string
  created_at: string
  updated_at: string
}
type DashboardPresetVersion = {
  version: number
  is_current: boolean
  config: PresetConfig
  created_by: string
  created_at: string
}

/** GET …/presets */
export type PresetsAnswer = { data: DashboardPreset[] }
export type PresetAnswer = { data: DashboardPreset }
/** GET …/presets/{name}/versions */
export type PresetVersionsAnswer = { data: DashboardPresetVersion[] }
