import { useQuery } from '@tanstack/react-query'
import type { PresetAnswer, PresetsAnswer, PresetVersionsAnswer } from '../../../wire/presets.ts'
import { call } from '../../api.ts'
import { usePlace } from '../../session.tsx'
import { useChange } from '../../use-change.ts'

const changed = { path: '/presets', queryKey: ['presets'] }

export function usePresets() {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'presets'],
    queryFn: async ({ signal }) => (await call<PresetsAnswer>(`${base}/presets`, { signal })).data,
  })
}

export function usePresetVersions(name: string) {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'presets', name, 'versions'],
    queryFn: async ({ signal }) =>
      (await call<PresetVersionsAnswer>(`${base}/presets/${encodeURIComponent(name)}/versions`, { signal })).data,
  })
}

export const useSavePreset = (name: string, config: () => object, onSaved: (answer: PresetAnswer) => void) =>
  useChange<void, PresetAnswer>(changed, async base => call(base, { body: { name, config: config() } }), onSaved)
export const usePresetVersion = (name: string) =>
  useChange<number, PresetAnswer>(changed, (base, version) =>
    call(`${base}/${encodeURIComponent(name)}/current`, { body: { version } }),
  )
export const useDeletePreset = (name: string, onDeleted: () => void) =>
  useChange<void, { deleted: true }>(
    changed,
    base => call(`${base}/${encodeURIComponent(name)}`, { method: 'DELETE' }),
    onDeleted,
  )
