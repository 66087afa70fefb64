import type { ChatRequest } from './chat.ts'
import shipped from './difficulty-weights.json' with { type: 'json' }
import { type CueName, type Cues, cueNames, type Reading, readPrompt } from './prompt-cues.ts'
import type { WordClass } from './prompt-words.ts'

/** What `bench/routing/train.ts` learns: each cue's weight and scale, and the quantiles of the sum over its prompts. */
export type DifficultyWeights = {
  cues: Record<CueName, { mean: number; deviation: number; weight: number }>
  quantiles: number[]
}

/** A cue further from its mean than this, in deviations, counts as this far. */
const mostDeviations = 3

/**
 * What the labelled prompts have too little of, set by hand. Added up in log-odds: +1 lifts 0.5 to 0.73, and no sum gets
 * beyond 0 and 1.
 */
const byHand = {
  /** Words and marks that ask for an effort; the whole weight is reached at so many of them. */
  marks: [
    { name: 'proof', weight: 2, enough: 1 },
    { name: 'analysis', weight: 0.8, enough: 2 },
    { name: 'computing', weight: 0.6, enough: 2 },
    { name: 'code', weight: 1.2, enough: 2 },
  ] satisfies { name: WordClass; weight: number; enough: number }[],
  /**
   * A prompt of no words, and a linear part of it below `fewWords`: less in a conversation, which it goes on with. An
   * effort asked for takes away from this and the next.
   */
  brevity: -1.6,
  fewWords: 14,
  /** A greeting or thanks within a prompt of few words. */
  greeting: -2,
  /** Work that is much to read but little to think about, such as a summary or a translation. */
  routine: -1.5,
  /** Each image, document or sound counts as so many words: what is asked is in it. */
  wordsPerMedium: 10,
  /** Per doubling of the messages, of the tools and of the system prompt's 1,000 characters. */
  depth: 0.15,
  tools: 0.25,
  system: 0.1,
  jsonSchema: 0.3,
  /** Who asks for thinking knows that it is needed. */
  effort: { none: -0.8, minimal: -0.6, low: -0.3, medium: 0.5, high: 1.2, xhigh: 1.6, max: 2 },
}

/**
 * How much a strong model is likely to gain over a weak one on a request, from 0 (nothing) to 1. Pure; reads a bounded
 * part of the last user message, and of the rest only what there is how much of.
 */
export function difficultyOf(request: ChatRequest, weights: DifficultyWeights = shipped): number {
  const { text, media } = lastUserMessage(request)
  const reading = readPrompt(text)
  const learned = quantileOf(learnedScore(reading.cues, weights), weights.quantiles)
  const effort = effortOf(reading)
  const oddsLog = Math.log(learned / (1 - learned)) + effort + slightness(reading, media, effort, request)
  return 1 / (1 + Math.exp(-(oddsLog + circumstances(request))))
}

/** The learned part before it is spread over 0…1: higher is harder. */
export function learnedScore(cues: Cues, { cues: scales }: DifficultyWeights): number {
  let score = 0
  for (const name of cueNames) score += scales[name].weight * scaled(cues[name], scales[name])
  return score
}

/** A cue's distance from its mean in deviations; 0 when the prompt has nothing to read it off. */
export function scaled(value: number | null, { mean, deviation }: { mean: number; deviation: number }): number {
  if (value === null) return 0
  return Math.max(-mostDeviations, Math.min(mostDeviations, (value - mean) / deviation))
}

/** Where a score stands among the labelled prompts, kept off the ends so that its odds are finite. */
function quantileOf(score: number, quantiles: number[]): number {
  const above = quantiles.findIndex(quantile => quantile > score)
  const last = quantiles.length - 1
  const upper = above < 0 ? last : Math.max(1, above)
  const [low, high] = [quantiles[upper - 1]!, quantiles[upper]!]
  const within = high > low ? Math.max(0, Math.min(1, (score - low) / (high - low))) : 1
  return 0.02 + (0.96 * (upper - 1 + within)) / last
}

/** What the words and marks of the prompt ask for; not negative. */
function effortOf({ marks, codeMarks }: Reading): number {
  let sum = 0
  for (const { name, weight, enough } of byHand.marks) {
    const found = (marks.get(name) ?? 0) + (name === 'code' ? codeMarks : 0)
    sum += weight * Math.min(1, found / enough)
  }
  return sum
}

/** What there is too little of to be hard; not positive. */
function slightness({ marks, size, mathsMarks }: Reading, media: number, effort: number, { messages }: ChatRequest) {
  const words = size + mathsMarks + media * byHand.wordsPerMedium
  const lack = Math.max(0, 1 - words / byHand.fewWords)
  const brevity = (byHand.brevity * lack) / (messages.length > 2 ? 2 : 1)
  const greeting = marks.has('greeting') && lack > 0 ? byHand.greeting : 0
  const routine = marks.has('routine') ? byHand.routine : 0
  return (brevity + greeting + routine) * Math.max(0, 1 - effort)
}

/** What the request brings besides the question. */
function circumstances({ messages, tools, response_format, reasoning_effort }: ChatRequest): number {
  let systemCharacters = 0
  for (const { role, content } of messages.slice(0, 4))
    if (role === 'system' || role === 'developer') systemCharacters += textOf(content).length
  return (
    byHand.depth * Math.log2(Math.min(1_024, messages.length)) +
    byHand.tools * Math.log2(1 + (tools?.length ?? 0)) +
    byHand.system * Math.log2(1 + Math.min(1_000_000, systemCharacters) / 1_000) +
    (response_format?.type === 'json_schema' ? byHand.jsonSchema : 0) +
    (reasoning_effort ? byHand.effort[reasoning_effort] : 0)
  )
}

function lastUserMessage({ messages }: ChatRequest): { text: string; media: number } {
  const { content } = messages.findLast(({ role }) => role === 'user') ?? messages.at(-1)!
  const media = Array.isArray(content) ? content.slice(0, mostParts).filter(({ type }) => type !== 'text').length : 0
  return { text: textOf(content), media }
}

/** Content parts looked at from either end. */
const mostParts = 50

function textOf(content: ChatRequest['messages'][number]['content']): string {
  if (!content) return ''
  if (typeof content === 'string') return content
  const parts =
    content.length > 2 * mostParts ? [...content.slice(0, mostParts), ...content.slice(-mostParts)] : content
  return parts.map(part => (part.type === 'text' ? String(part.text) : '')).join('\n')
}
