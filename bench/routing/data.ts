import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import type { ChatRequest } from '../../shared/kinds/chat.ts'
import { type Cues, readPrompt } from '../../shared/kinds/prompt-cues.ts'

/** A labelled prompt: whether the weak and the strong model answered it correctly. */
export type Labelled = { subject: string; prompt: string; weak: boolean; strong: boolean }
export type Row = Labelled & { cues: Cues }

/** Reads labelled prompts, one JSON object a line, gzipped. */
export function readRows(path: string): Row[] {
  const lines = gunzipSync(readFileSync(path)).toString().trim().split('\n')
  return lines.map(line => {
    const labelled: Labelled = JSON.parse(line)
    return { ...labelled, cues: readPrompt(labelled.prompt).cues }
  })
}

/** The rows of each subject, in the order of the subjects' first rows. */
export function bySubject<T extends Labelled>(rows: T[]): T[][] {
  return [...Map.groupBy(rows, ({ subject }) => subject).values()]
}

/** How many more prompts of some the strong model answers: its answers less the weak one's. */
export function gainOf(rows: Labelled[]): number {
  return rows.reduce((sum, { weak, strong }) => sum + Number(strong) - Number(weak), 0)
}

/** A prompt as a chat request would bring it. */
export function requestOf(prompt: string): ChatRequest {
  return { model: 'auto', messages: [{ role: 'user', content: prompt }] }
}

/** A subject where the strong model scores so much worse than the weak one was not judged by its answers. */
const leastGain = -0.1

export function isMisjudged(subject: Labelled[]): boolean {
  return gainOf(subject) / subject.length < leastGain
}

/** What figures are given for: everything, either source, and what is left without the subjects that stand out most. */
export function partsOf<T extends Labelled>(rows: T[]): { name: string; rows: T[] }[] {
  const subjects = bySubject(rows)
  const judged = subjects.filter(subject => !isMisjudged(subject)).toSorted((a, b) => gainOf(b) - gainOf(a))
  return [
    { name: 'all', rows },
    { name: 'MMLU', rows: rows.filter(({ subject }) => subject !== 'gsm8k') },
    { name: 'GSM8K', rows: rows.filter(({ subject }) => subject === 'gsm8k') },
    { name: 'all but misjudged subjects', rows: judged.flat() },
    { name: '… and but the one that gains most', rows: judged.slice(1).flat() },
  ]
}
