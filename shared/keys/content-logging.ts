import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import { dayMs } from '../base/time.ts'

/** Which requests of a key leave their input and output: those that failed, all, or a random part. */
const modes = ['errors', 'all', 'sample'] as const
/** How far ahead the end of logging may be. */
export const maxLoggingDays = 30
/** How long logged content may be kept. */
export const maxContentDays = 30

/** What a key's policy says about logging; null = nothing is logged. */
export type ContentLogging = { mode: (typeof modes)[number]; percent: number; untilMs: number }

/** The columns of a key's row, or of its organisation's. */
export type ContentColumns = { contentMode: string | null; contentPercent: number | null; contentUntil: Date | null }

/** A setting in the API's format; `mode: "off"` of a key overrides its organisation. */
export type ContentSetting = {
  mode: ContentLogging['mode'] | 'off'
  sample_percent: number | null
  until: string | null
}

/** The body that sets what is logged; null = as the organisation says, or nothing. */
export const contentSetting = z
  .strictObject({
    mode: z.enum(['off', ...modes]),
    sample_percent: z.int().min(1).max(100).nullish(),
    until: z.iso.datetime({ offset: true }).nullish(),
  })
  .nullable()

/** The setting of a key, or else of its organisation, once it is in force; null = nothing is logged. */
export function contentLoggingOf(key: ContentColumns, organisation: ContentColumns | null): ContentLogging | null {
  const {
    contentMode: mode,
    contentPercent,
    contentUntil,
  } = key.contentMode === null && organisation ? organisation : key
  const known = modes.find(name => name === mode)
  if (!known || !contentUntil) return null
  return { mode: known, percent: known === 'sample' ? (contentPercent ?? 0) : 100, untilMs: contentUntil.getTime() }
}

/** A row's setting in the API's format; null = none of its own. */
export function presentContentSetting({
  contentMode,
  contentPercent,
  contentUntil,
}: ContentColumns): ContentSetting | null {
  if (contentMode === null) return null
  return {
    mode: contentMode as ContentSetting['mode'],
    sample_percent: contentPercent,
    until: contentUntil?.toISOString() ?? null,
  }
}

/** The columns of a setting. Throws 400 that names the field. */
export function contentColumns(setting: z.output<typeof contentSetting>, nowMs: number): ContentColumns {
  if (setting === null || setting.mode === 'off')
    return { contentMode: setting?.mode ?? null, contentPercent: null, contentUntil: null }
  const { mode, sample_percent: percent, until } = setting
  if ((mode === 'sample') !== (percent != null))
    throw invalid('sample_percent', mode === 'sample' ? 'is required for a sample' : 'is only for a sample')
  const untilMs = until ? Date.parse(until) : Number.NaN
  if (!(untilMs > nowMs && untilMs <= nowMs + maxLoggingDays * dayMs))
    throw invalid('until', `must be a time within the next ${maxLoggingDays} days`)
  return { contentMode: mode, contentPercent: percent ?? null, contentUntil: new Date(untilMs) }
}

function invalid(param: string, fault: string): GatewayError {
  return new GatewayError('invalid_request', `\`${param}\` ${fault}.`, { param })
}
