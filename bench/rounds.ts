import { machineCpuSeconds, ownCpuSeconds } from './lib/proc.ts'

export type Figures = Record<string, number>

/** A figure of the report, from a slice and the mean of the reference's slices right before and after it. */
export type Column = { title: string; decimals: number; of(own: Figures, reference: Figures): number }

/** A way to measure: its cases, and one slice of one subject. */
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
  /** Cores that processes outside the benchmark may use before a slice is measured again. */
  mostNoise: number
  report(slice: Slice): void
}

const mostAttempts = 3

/**
 * Measures the subjects in alternation, every slice flanked by slices of the reference: the speed of a virtual machine
 * drifts, a ratio taken within seconds does not. Of a slice disturbed by other processes the calmest attempt counts.
 */
export async function alternate(mode: Mode, options: RoundOptions): Promise<Slice[]> {
  const { reference, subjects, rounds, mostNoise, report } = options
  const slices: Slice[] = []
  const keep = (slice: Slice) => {
    slices.push(slice)
    report(slice)
  }
  for (const subject of [reference, ...subjects]) await mode.warm(subject)
  for (let round = 0; round < rounds; round++) {
    for (const which of mode.cases) {
      let before = await mode.measure(reference, which)
      for (const subject of rotated(subjects, round)) {
        const { own, after, noise } = await calmest(mostNoise, async () => ({
          own: await mode.measure(subject, which),
          after: await mode.measure(reference, which),
        }))
        keep({ subject, which, round, own, reference: mean(before, after), noise })
        keep({ subject: reference, which, round, own: after, reference: after, noise })
        before = after
      }
    }
  }
  return slices
}

async function calmest<T extends object>(mostNoise: number, measure: () => Promise<T>): Promise<T & { noise: number }> {
  let best: (T & { noise: number }) | null = null
  for (let attempt = 0; attempt < mostAttempts && !(best && best.noise <= mostNoise); attempt++) {
    const fromMs = performance.now()
    const foreignBefore = machineCpuSeconds() - ownCpuSeconds()
    const measured = await measure()
    const foreignSeconds = machineCpuSeconds() - ownCpuSeconds() - foreignBefore
    const noise = Math.max(0, (foreignSeconds * 1e3) / (performance.now() - fromMs))
    if (!best || noise < best.noise) best = { ...measured, noise }
  }
  return best!
}

function rotated<T>(items: T[], by: number): T[] {
  const at = by % Math.max(1, items.length)
  return [...items.slice(at), ...items.slice(0, at)]
}

function mean(a: Figures, b: Figures): Figures {
  return Object.fromEntries(Object.keys(a).map(name => [name, (a[name]! + b[name]!) / 2]))
}
