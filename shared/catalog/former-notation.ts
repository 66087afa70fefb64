import { isObject } from '../base/is-object.ts'
import { deploymentTraits } from './deployment-traits.ts'

type Json = Record<string, unknown>

const known = new Set(Object.keys(deploymentTraits.shape))
const modes = Object.keys(deploymentTraits.shape.by_mode.unwrap().shape)
const constant = 'input.'
/** Lists that were one text. */
const separators: Record<string, string> = { aspect_ratios: ',', view_fields: ',', file_formats: ' ' }
/** Nothing reads these. */
const unusedQuirks = ['anthropic_version', 'completions']

/** The quirks of a provider in the notation of this release: those that nothing reads are left out. */
export function currentQuirks(quirks: unknown): unknown {
  if (!isObject(quirks)) return quirks
  const current: Json = { ...quirks }
  for (const name of unusedQuirks) delete current[name]
  return current
}

/**
 * The traits of a deployment in the notation of this release. Before, traits had only texts, numbers and booleans:
 * `"formats": "png,jpeg=jpg"`, `"input.fps": 24`, `"image_model": "…"` for a model of the mode `image`. Whatever else is
 * not known, or stated in both notations, stays for the schema to refuse.
 */
export function currentTraits(traits: unknown): unknown {
  if (!isObject(traits)) return traits
  const current: Json = {}
  const input: Json = {}
  const byMode: Record<string, Json> = {}
  for (const [name, value] of Object.entries(traits)) {
    const mode = traits.by_mode === undefined ? modeOf(name) : undefined
    if (mode) byMode[mode] = { ...byMode[mode], [name.slice(mode.length + 1)]: value }
    else if (name.startsWith(constant) && traits.input === undefined) input[name.slice(constant.length)] = value
    else if (name === 'reasons') current.reasoning ??= value
    else if (name !== 'image_output') current[name] = value
  }
  for (const [mode, own] of Object.entries(byMode)) byMode[mode] = currentTexts(own)
  return {
    ...currentTexts(current),
    ...(Object.keys(input).length > 0 && { input }),
    ...(Object.keys(byMode).length > 0 && { by_mode: byMode }),
  }
}

/** The mode whose own a trait was: of `image_model`, `image`. */
function modeOf(name: string): string | undefined {
  if (known.has(name)) return undefined
  return modes.find(mode => name.startsWith(`${mode}_`) && known.has(name.slice(mode.length + 1)))
}

/** Texts that had a grammar of their own. */
function currentTexts({ formats, size_field, size_format, ...traits }: Json): Json {
  const current: Json = { ...traits }
  for (const [name, separator] of Object.entries(separators))
    if (typeof traits[name] === 'string') current[name] = traits[name].split(separator)
  if (typeof formats === 'string') {
    const entries = formats.split(',').map(entry => entry.split('='))
    const renamed = entries.filter(([, own]) => own !== undefined)
    current.formats = entries.map(([format]) => format)
    if (renamed.length > 0) current.format_names = Object.fromEntries(renamed)
  } else if (formats !== undefined) current.formats = formats
  if (size_format === 'fields' && typeof size_field === 'string') {
    const [width, height] = size_field.split(',')
    return { ...current, width_field: width, height_field: height }
  }
  return {
    ...current,
    ...(size_field !== undefined && { size_field }),
    ...(size_format !== undefined && { size_format }),
  }
}
