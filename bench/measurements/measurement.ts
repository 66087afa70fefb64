import type { Behaviour } from '../lib/request.ts'
import { type Row, tables } from '../report.ts'
import type { Rig } from '../rig.ts'
import { alternate, type Column, type Figures, type Mode, type Slice } from '../rounds.ts'

/** What a measurement runs on, and how often. */
export type Bench = {
  rig: Rig
  /** Beside `bare`; the first is what the rows are about. */
  subjects: string[]
  /** Gateways of others, for `chat` only. */
  peers: string[]
  rounds: number
  maxNoise: number
  /** Requests that warm up each subject, and how long they may take. */
  warm: number
  'warm-seconds': number
}

/** One measurement of the benchmark: the rows it gives, and what the upstream must be able to do for it. */
export type Measurement = { behaviours: Behaviour[]; measure(bench: Bench): Promise<Row[]> }

export const bare = 'bare'
export const plain: Behaviour = { latencyMs: 0, chunks: 1, intervalMs: 0 }

/** Measures subjects in pairs with `bare`, prints their table, and gives the slices. */
export async function paired(bench: Bench, title: string, mode: Mode, subjects: string[]): Promise<Slice[]> {
  const { rounds, maxNoise } = bench
  const slices = await alternate(mode, { reference: bare, subjects, rounds, maxNoise, report: progress })
  console.log(`\n${title}, ${rounds} rounds\n\n${tables(mode.columns, slices)}`)
  const failed = slices.reduce((sum, { own }) => sum + (own.failed ?? 0), 0)
  if (failed > 0) console.log(`${failed} requests failed: these figures mean little\n`)
  return slices
}

/** A figure of a subject's own. */
export function own(title: string, decimals: number, name: string, scale = 1): Column {
  return { title, decimals, of: figures => figures[name]! * scale }
}

/** A figure divided by the reference's. */
export function ratio(title: string, name: string, decimals = 3): Column {
  return { title, decimals, of: divided(name) }
}

/** A figure less the reference's. */
export function added(title: string, name: string, scale: number): Column {
  return { title, decimals: 2, of: (figures, reference) => (figures[name]! - reference[name]!) * scale }
}

export function divided(name: string): (own: Figures, other: Figures) => number {
  return (figures, other) => figures[name]! / other[name]!
}

/** A column of one subject's slices as a row of the table of targets. */
export function rowOf(slices: Slice[], subject: string, of: Column['of'], row: Omit<Row, 'values'>): Row {
  const mine = slices.filter(slice => slice.subject === subject)
  return { ...row, values: mine.map(slice => of(slice.own, slice.reference)) }
}

function progress({ subject, which, round, own, noise }: Slice): void {
  const figures = Object.entries(own).map(
    ([figure, value]) => `${figure} ${Number((value ?? Number.NaN).toPrecision(4))}`,
  )
  console.error(`${subject}, ${which}, round ${round + 1}: ${figures.join(', ')}, noise ${noise.toFixed(2)}`)
}
