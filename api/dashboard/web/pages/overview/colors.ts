import type { UsageSeries } from '../../../wire/usage.ts'

/** Told apart side by side, in light and in dark. */
const palette = ['water.5', 'orange.5', 'violet.5', 'lime.6', 'pink.5', 'blue.6', 'yellow.5', 'red.7']
const others = 'gray.5'

/** The colours of series, in their order. */
export function colorsOf(series: readonly UsageSeries[]): string[] {
  return series.map(({ id }, i) => (id === null ? others : palette[i % palette.length]!))
}
