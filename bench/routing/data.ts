import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import type { ChatRequest } from '../../shared/kinds/chat.ts'
import { type Cues, readPrompt } from '../../shared/routing/prompt-cues.ts'

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

/** Whether a prompt is a problem of GSM8K: school maths in a few steps, without choices. */
export function isProblem({ subject }: Labelled): boolean {
  return subject === 'gsm8k'
}

/** A prompt as a chat request would bring it. */
export function requestOf(prompt: string): ChatRequest {
  return { model: 'auto', messages: [{ role: 'user', content: prompt }] }
}

/** An exam question without its choices, as users ask. */
export function withoutChoices({ prompt }: Labelled): string {
  return prompt.split('\nA. ')[0]!
}

/** A subject where the strong model scores so much worse than the weak one was not judged by its answers. */
const minGain = -0.1

export function isMisjudged(subject: Labelled[]): boolean {
  return gainOf(subject) / subject.length < minGain
}

/** What figures are given for: everything, either source, and what is left without the subjects that stand out most. */
export function partsOf<T extends Labelled>(rows: T[]): { name: string; rows: T[] }[] {
  const subjects = bySubject(rows)
  const giant = subjects.toSorted((a, b) => gainOf(b) - gainOf(a))[0]
  const without = (isLeftOut: (subject: T[]) => boolean) => subjects.filter(subject => !isLeftOut(subject)).flat()
  return [
    { name: 'all', rows },
    { name: 'MMLU', rows: rows.filter(row => !isProblem(row)) },
    { name: 'GSM8K', rows: rows.filter(isProblem) },
    { name: 'without the subject that gains most', rows: without(subject => subject === giant) },
    { name: 'without the misjudged subject', rows: without(isMisjudged) },
    { name: 'without both', rows: without(subject => subject === giant || isMisjudged(subject)) },
  ]
}
