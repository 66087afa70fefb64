import type { UsageSeries } from '../../../wire/usage.ts'

/** Distinguishable side by side, in both colour schemes. */
const palette = ['water.5', 'orange.5', 'violet.5', 'lime.6', 'pink.5', 'blue.6', 'yellow.5', 'red.7']
const others = 'gray.5'

/** The colours of the series, in order. */
export function colorsOf(series: readonly UsageSeries[]): string[] {
  return series.map(({ id }, i) => (id === null ? others : palette[i % palette.length]!))
}
