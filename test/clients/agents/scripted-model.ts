import { type Call, callsFor, markOf, type Tool } from './tools.ts'

/** What an agent asks a model, in whatever dialect. */
export type Asked = {
  /** The request's bytes as text. */
  raw: string
  /** What was said after the last answer of the model, without the results of tools. */
  lastText: string
  tools: Tool[]
}
export type Answer = { text: string; calls: Call[] }
/**
 * How a provider fails: before it answers, with an event in its stream, or by ending the connection in the middle of a text
 * (`cut`) or before the first (`early`).
 */
export type Fault = 'overloaded' | 'limited' | 'failed' | 'overflow' | BreakingFault
export type BreakingFault = 'event' | 'cut' | 'early'
export type Decision = { conversation: string; answer: Answer; fault: Fault | null }

type PlannedFault = { fault: Fault; times: number }
type Part = { number: number; folder: string; steps: string[]; faults: Map<number, PlannedFault> }

const conversationPattern = /ag[0-9a-f]{12}/
const partPattern = /(ag[0-9a-f]{12}) part (\d+) in ([^\s:]+): ([a-z ]+)(?:; faults ([a-z0-9- ]+))?\./g
const faultPattern = /([a-z]+)-(\d+)(?:x(\d+))?/g
/** Agents ask for a summary when they compact a conversation. */
const compaction =
  /(?:create|write|generate|provide|produce)\b[^.]{0,80}\bsummary|context checkpoint|summari[sz]e (?:the|our|this)/i
/** What such a request may say without tools; a title is another matter. */
const summary = /^(?!.*\btitle\b).*\b(?:summar|checkpoint|compact)/is
/** A conversation that gets nowhere ends. */
const maxRequests = 200
/**
 * The prompt for one part of a conversation: the folder of the work, the steps of the model, and which of them its
 * provider fails first: `cut-3` once, `overloaded-3x2` twice.
 */
export function promptFor(
  conversation: string,
  part: number,
  folder: string,
  steps: string[],
  faults: string[],
): string {
  const failing = faults.length > 0 ? `; faults ${faults.join(' ')}` : ''
  return `${conversation} part ${part} in ${folder}: ${steps.join(' ')}${failing}.`
}

/** The model's last words in a part. */
export function lastWordsOf(conversation: string, part: number): string {
  return `Finished part ${part} of ${conversation}.`
}

/**
 * A model that does what the prompts say, step by step. Every step leaves its mark in what the agent sends next, so the
 * model knows where it is from the request alone: it may be asked again, resumed, or asked after a compaction.
 */
export class ScriptedModel {
  readonly #failures = new Map<string, number>()
  readonly #compactions = new Map<string, number>()
  readonly #requests = new Map<string, number>()

  /** How often a conversation was compacted. */
  compactionsOf(conversation: string): number {
    return this.#compactions.get(conversation) ?? 0
  }

  /** What to answer; null for a request of no conversation. */
  decide({ raw, lastText, tools }: Asked): Decision | null {
    const conversation = conversationPattern.exec(raw)?.[0]
    if (!conversation) return null
    const say = (text: string): Decision => ({ conversation, answer: { text, calls: [] }, fault: null })
    const requests = (this.#requests.get(conversation) ?? 0) + 1
    this.#requests.set(conversation, requests)
    if (requests > maxRequests) return say('This leads nowhere.')
    const part = lastPartIn(raw)
    const demand = lastText.replaceAll(partPattern, '')
    if (part && (compaction.test(demand) || (tools.length === 0 && summary.test(demand)))) {
      this.#compactions.set(conversation, this.compactionsOf(conversation) + 1)
      return say(summaryOf(raw, conversation, part))
    }
    if (!part || tools.length === 0) return say('Work on files')
    const step = lastStepIn(raw, conversation, part) + 1
    const fault = this.#faultAt(conversation, part, step)
    const kind = part.steps[step - 1]
    if (!kind) return { ...say(lastWordsOf(conversation, part.number)), fault }
    const calls = callsFor(kind, { conversation, part: part.number, step, folder: part.folder }, tools)
    return { conversation, answer: { text: `Step ${step}.`, calls }, fault }
  }

  /** The fault of a step, as often as its prompt says. */
  #faultAt(conversation: string, part: Part, step: number): Fault | null {
    const planned = part.faults.get(step)
    if (!planned) return null
    const { fault } = planned
    const mark = markOf(conversation, part.number, step)
    const failed = this.#failures.get(mark) ?? 0
    this.#failures.set(mark, failed + 1)
    return failed < planned.times ? fault : null
  }
}

/** The part of the last prompt in a request. */
function lastPartIn(raw: string): Part | null {
  const parts = [...raw.matchAll(partPattern)].map(([, , number, folder, steps, faults = '']) => ({
    number: Number(number),
    folder: folder!,
    steps: steps!.split(' '),
    faults: new Map([...faults.matchAll(faultPattern)].map(plannedFault)),
  }))
  return parts.reduce<Part | null>((last, part) => (last && last.number > part.number ? last : part), null)
}

function plannedFault([, fault, step, times = '1']: RegExpExecArray): [step: number, planned: PlannedFault] {
  return [Number(step), { fault: fault as Fault, times: Number(times) }]
}

/** The last step of a part that the agent has taken; 0 if none. */
function lastStepIn(raw: string, conversation: string, { number }: Part): number {
  const marks = raw.matchAll(new RegExp(`${conversation}-${number}-(\\d+)`, 'g'))
  return [...marks].reduce((last, [, step]) => Math.max(last, Number(step)), 0)
}

/** A summary from which the conversation can go on: the last prompt, and the mark of the last step. */
function summaryOf(raw: string, conversation: string, part: Part): string {
  const step = lastStepIn(raw, conversation, part)
  const prompt = [...raw.matchAll(partPattern)]
    .map(([text]) => text)
    .findLast(text => text.includes(`part ${part.number} in`))
  return `The user asked: ${prompt} The last step was ${step > 0 ? markOf(conversation, part.number, step) : 'none'}.`
}
