import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Exchange, RecordingProxy } from '../support/recording-proxy.ts'
import type { Agent } from './agents.ts'
import { lastWordsOf, promptFor } from './scripted-model.ts'
import { AgentSession, type Run } from './session.ts'
import { contentOf, editOf, fileOf } from './tools.ts'

/** One prompt: what the model does, and how its provider fails meanwhile. */
export type Part = { steps: string[]; faults: string[] }
export type Conversation = {
  name: string
  /** Each prompt's run, whether it ended with the model's last words, and the edits that are not in their files. */
  parts: { run: Run; hasEnded: boolean; missingEdits: string[] }[]
  /** What went over the wire. */
  exchanges: Exchange[]
}
type Target = { origin: string; key: string; model: string; programs: string }

const ampleTokens = 200_000

const split = (text: string) => text.split(' ')
/** A prompt, a resumed session that grows until it is compacted, and one after that. */
const shortParts: Part[] = [
  { steps: split('shell read edit parallel'), faults: ['overloaded-2'] },
  { steps: split('big big big big shell'), faults: [] },
  { steps: split('read edit shell'), faults: ['cut-2'] },
]
/** The same over thirty turns of the model. */
const longParts: Part[] = [
  { steps: split('shell read edit parallel read edit shell read edit shell'), faults: ['overloaded-2', 'limited-5'] },
  { steps: split('big big big big shell read edit parallel read edit'), faults: ['failed-6'] },
  { steps: split('read edit shell parallel read edit shell read edit shell'), faults: ['cut-2', 'overloaded-7'] },
]

export const programsIn = (folder: string) => join(folder, 'node_modules')

/** Holds a conversation with an agent: an edit, a resume, a compaction, a 529, a cut stream. */
export async function converse(
  agent: Agent,
  { origin, programs, ...setup }: Target,
  isLong: boolean,
): Promise<Conversation> {
  const name = `ag${randomBytes(6).toString('hex')}`
  const { contextTokens = ampleTokens, prompt: command, said } = agent.compaction
  const proxy = await RecordingProxy.start(origin)
  const session = await AgentSession.start(agent, { ...setup, contextTokens, origin: proxy.url }, programs)
  try {
    const parts: Conversation['parts'] = []
    for (const [index, { steps, faults }] of (isLong ? longParts : shortParts).entries()) {
      const isFull = index === 1
      const survivable = faults.map(fault => fault.replace('cut', agent.cut ?? 'cut'))
      const planned = isFull && said ? [...survivable, 'overflow-3'] : survivable
      parts.push(await workOn(session, name, index + 1, { steps, faults: planned }))
      if (isFull && command) await session.prompt(command)
    }
    return { name, parts, exchanges: proxy.exchanges }
  } finally {
    await session.close()
    await proxy.close()
  }
}

async function workOn(session: AgentSession, conversation: string, part: number, { steps, faults }: Part) {
  const placeOf = (index: number) => ({ conversation, part, step: index + 1, folder: session.work })
  const indexesOf = (kind: string) => [...steps.keys()].filter(index => steps[index] === kind)
  for (const index of indexesOf('read')) await writeFile(fileOf(placeOf(index)), contentOf(placeOf(index)))
  const run = await session.prompt(promptFor(conversation, part, session.work, steps, faults))
  const missingEdits: string[] = []
  for (const index of indexesOf('edit')) {
    const path = fileOf(placeOf(index - 1))
    const expected = contentOf(placeOf(index - 1)).replace('alpha', editOf(placeOf(index)))
    if ((await readFile(path, 'utf8')) !== expected) missingEdits.push(path)
  }
  return { run, hasEnded: run.output.includes(lastWordsOf(conversation, part)), missingEdits }
}
