import { machineCpuSeconds, ownCpuSeconds } from './lib/proc.ts'

export type Figures = Record<string, number>

/** A figure of the report, from a slice and the slice of the reference in the same round. */
export type Column = { title: string; decimals: number; of(own: Figures, reference: Figures): number }

/** What is measured: its cases, and one slice of one subject. */
export type Mode = {
  cases: string[]
  columns: Column[]
  /** Brings a subject up to speed before the first round. */
  warm(subject: string): Promise<void>
  measure(subject: string, which: string): Promise<Figures>
}

export type Slice = { subject: string; which: string; round: number; own: Figures; reference: Figures; noise: number }
export type RoundOptions = {
  reference: string
  subjects: string[]
  rounds: number
  /** Cores that processes outside the benchmark may use before a round is measured again. */
  maxNoise: number
  report(slice: Slice): void
}

const maxAttempts = 3

/**
 * Measures the subjects in alternation and pairs every slice with the reference's of its own round: the speed of a virtual
 * machine drifts, a ratio taken within seconds does not. Who comes first changes from round to round. Of a round disturbed
 * by other processes the calmest of three attempts counts.
 */
export async function alternate(mode: Mode, options: RoundOptions): Promise<Slice[]> {
  const { reference, rounds, maxNoise, report } = options
  const subjects = [reference, ...options.subjects]
  const slices: Slice[] = []
  for (const subject of subjects) await mode.warm(subject)
  for (let round = 0; round < rounds; round++) {
    for (const which of mode.cases) {
      const { measured, noise } = await calmest(maxNoise, async () => {
        const measured = new Map<string, Figures>()
        for (const subject of rotated(subjects, round)) measured.set(subject, await mode.measure(subject, which))
        return measured
      })
      for (const [subject, own] of measured) {
        const slice = { subject, which, round, own, reference: measured.get(reference)!, noise }
        slices.push(slice)
        report(slice)
      }
    }
  }
  return slices
}

/** What `of` makes of the slices of two subjects, round by round. */
export function pairs(
  slices: Slice[],
  [subject, other]: readonly [string, string],
  of: (own: Figures, other: Figures) => number,
): number[] {
  return slices
    .filter(slice => slice.subject === subject)
    .flatMap(({ own, round, which }) => {
      const beside = slices.find(slice => slice.subject === other && slice.round === round && slice.which === which)
      return beside ? [of(own, beside.own)] : []
    })
}

async function calmest<T>(maxNoise: number, measure: () => Promise<T>): Promise<{ measured: T; noise: number }> {
  let best: { measured: T; noise: number } | null = null
  for (let attempt = 0; attempt < maxAttempts && !(best && best.noise <= maxNoise); attempt++) {
    const fromMs = performance.now()
    const foreignBefore = machineCpuSeconds() - ownCpuSeconds()
    const measured = await measure()
    const foreignSeconds = machineCpuSeconds() - ownCpuSeconds() - foreignBefore
    const noise = Math.max(0, (foreignSeconds * 1e3) / (performance.now() - fromMs))
    if (!best || noise < best.noise) best = { measured, noise }
  }
  return best!
}

function rotated<T>(items: T[], by: number): T[] {
  const at = by % items.length
  return [...items.slice(at), ...items.slice(0, at)]
}
