import type { ChatRequest } from '../kinds/chat.ts'
import trained from './difficulty-weights.json' with { type: 'json' }
import { type CueName, type Cues, cueNames, type Reading, readPrompt, writeCues } from './prompt-cues.ts'
import { countOf, type WordClass } from './prompt-words.ts'

/**
 * A sum of boosted regression trees over the cues, and the quantiles of that sum among the labelled prompts. A tree of
 * depth two is ten numbers: `[cue, threshold]` of its root, of the branch below the root's threshold and of the other,
 * where a cue is its index in `cueNames`; then the four leaves, from lower to higher.
 */
export type Ranking = { trees: number[][]; quantiles: number[] }

/** Output of `bench/routing/train.ts`. */
export type DifficultyWeights = {
  /** The median of each cue: its value in prompts where it is absent, so that absence itself is no cue. */
  medians: Record<CueName, number>
  /** Trained on the gain of the strong model within each subject, and on the whole gain. */
  rankings: Ranking[]
  /** Quantiles of the cue `words`. */
  wordQuantiles: number[]
  /** Quantiles of the mean of the ranks above. */
  quantiles: number[]
}

/**
 * Manual weights for features that are rare in the labelled prompts. They are added in log-odds: +1 raises 0.5 to 0.73,
 * and the result stays within 0 and 1.
 */
const manualWeights = {
  /** Words and marks that indicate effort; `saturation` occurrences reach the full weight. */
  marks: [
    { name: 'proof', weight: 2.5, saturation: 1 },
    { name: 'analysis', weight: 0.8, saturation: 2 },
    { name: 'computing', weight: 0.8, saturation: 2 },
    { name: 'code', weight: 1.2, saturation: 2 },
  ] satisfies { name: WordClass; weight: number; saturation: number }[],
  /**
   * Applied to an empty prompt, decreasing linearly up to `fewWords`; halved within a conversation. An effort reduces
   * this weight and the next two.
   */
  brevity: -1.6,
  fewWords: 14,
  /** A greeting or thanks in a short prompt. */
  greeting: -2,
  /** Long input with a simple task, such as a summary or a translation. */
  routine: -4,
  /**
   * Per doubling of the words beyond `maxLabelledWords`, up to `maxMaterial` in all: what is longer than the labelled
   * prompts is mostly material that the question is about, and length says less about the question.
   */
  material: -0.35,
  maxMaterial: -2.5,
  maxLabelledWords: 400,
  /** Each image, document or audio part counts as this many words, since it carries part of the question. */
  wordsPerMedium: 10,
  /** Per doubling of the messages, of the tools, and of the system prompt in units of 1,000 characters. */
  depth: 0.15,
  tools: 0.25,
  system: 0.1,
  jsonSchema: 0.3,
  /** An explicit reasoning effort states the difficulty directly. */
  effort: { none: -0.8, minimal: -0.6, low: -0.3, default: 0, medium: 0.5, high: 1.2, xhigh: 1.6, max: 2 },
}

/**
 * Estimates how much a strong model is likely to gain over a weak one on a request, from 0 (nothing) to 1. Pure; reads
 * a bounded part of the last user message, and only the size of the rest.
 */
export function difficultyOf(request: ChatRequest, weights: DifficultyWeights = trained): number {
  const { text, media } = lastUserMessage(request)
  const reading = readPrompt(text)
  // Kept away from 0 and 1, so that its odds leave room for the other parts.
  const learned = 0.05 + 0.9 * quantileOf(learnedScore(reading.cues, weights), weights.quantiles)
  const effort = effortOf(reading)
  const brevity = brevityOf(reading, media, effort, request)
  const oddsLog = Math.log(learned / (1 - learned)) + effort + brevity + materialOf(reading)
  return 1 / (1 + Math.exp(-(oddsLog + contextOf(request))))
}

/** The learned estimate before it is mapped to 0…1: the mean rank by each of the rankings and by the number of words. */
export function learnedScore(cues: Cues, { medians, rankings, wordQuantiles }: DifficultyWeights): number {
  writeCues(cues, medians, latestInput)
  let sum = quantileOf(latestInput[wordsIndex]!, wordQuantiles)
  for (const { trees, quantiles } of rankings) sum += quantileOf(sumOf(trees, latestInput), quantiles)
  return sum / (1 + rankings.length)
}

const wordsIndex = cueNames.indexOf('words')
/** Cues are read for every request to `auto`, one after another. */
const latestInput = new Float64Array(cueNames.length)

/** The sum of what the trees give for an input. */
export function sumOf(trees: Ranking['trees'], input: Float64Array): number {
  let sum = 0
  for (const tree of trees) {
    const side = input[tree[0]!]! >= tree[1]! ? 1 : 0
    const isUpper = input[tree[2 + 2 * side]!]! >= tree[3 + 2 * side]!
    sum += tree[6 + 2 * side + (isUpper ? 1 : 0)]!
  }
  return sum
}

/** The share of the labelled prompts, 0 to 1, that are below a value; half of those equal to it count. */
function quantileOf(value: number, quantiles: number[]): number {
  const last = quantiles.length - 1
  const lower = firstFrom(quantiles, value)
  if (lower > last) return 1
  let upper = lower
  while (quantiles[upper] === value) upper++
  if (upper > lower) return (lower + upper - 1) / 2 / last
  if (lower === 0) return 0
  const low = quantiles[lower - 1]!
  const high = quantiles[lower]!
  return (lower - 1 + (value - low) / (high - low)) / last
}

/** The first index of ascending values from which they are at least `min`; their number if none is. */
function firstFrom(values: number[], min: number): number {
  let low = 0
  let high = values.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (values[middle]! >= min) high = middle
    else low = middle + 1
  }
  return low
}

/** Effort indicated by the words and marks of the prompt; not negative. */
function effortOf({ marks, codeMarks }: Reading): number {
  let sum = 0
  for (const { name, weight, saturation } of manualWeights.marks) {
    const matches = countOf(marks, name) + (name === 'code' ? codeMarks : 0)
    sum += weight * Math.min(1, matches / saturation)
  }
  return sum
}

/** Reduction for short and routine prompts; not positive. */
function brevityOf({ marks, size, mathsMarks }: Reading, media: number, effort: number, { messages }: ChatRequest) {
  const words = size + mathsMarks + media * manualWeights.wordsPerMedium
  const shortness = Math.max(0, 1 - words / manualWeights.fewWords)
  const brevity = (manualWeights.brevity * shortness) / (messages.length > 2 ? 2 : 1)
  const greeting = countOf(marks, 'greeting') > 0 && shortness > 0 ? manualWeights.greeting : 0
  const routine = countOf(marks, 'routine') > 0 ? manualWeights.routine : 0
  return (brevity + greeting + routine) * Math.max(0, 1 - effort)
}

/** Reduction for text longer than the labelled prompts; not positive. */
function materialOf({ size }: Reading): number {
  const { material, maxMaterial, maxLabelledWords } = manualWeights
  return Math.max(maxMaterial, material * Math.log2(Math.max(1, size / maxLabelledWords)))
}

/** Contribution of the request apart from its last user message. */
function contextOf({ messages, tools, response_format, reasoning_effort }: ChatRequest): number {
  let systemCharacters = 0
  for (const { role, content } of messages.slice(0, 4))
    if (role === 'system' || role === 'developer') systemCharacters += textOf(content).length
  return (
    manualWeights.depth * Math.log2(Math.max(1, Math.min(1_024, messages.length))) +
    manualWeights.tools * Math.log2(1 + (tools?.length ?? 0)) +
    manualWeights.system * Math.log2(1 + Math.min(1_000_000, systemCharacters) / 1_000) +
    (response_format?.type === 'json_schema' ? manualWeights.jsonSchema : 0) +
    (reasoning_effort ? manualWeights.effort[reasoning_effort] : 0)
  )
}

/** There is no message at all where a Responses request has calls and outputs of tools alone. */
function lastUserMessage({ messages }: ChatRequest): { text: string; media: number } {
  const content = (messages.findLast(({ role }) => role === 'user') ?? messages.at(-1))?.content
  const media = Array.isArray(content) ? content.slice(0, maxParts).filter(({ type }) => type !== 'text').length : 0
  return { text: textOf(content), media }
}

/** Content parts read from either end. */
const maxParts = 50

function textOf(content: ChatRequest['messages'][number]['content']): string {
  if (!content) return ''
  if (typeof content === 'string') return content
  const parts = content.length > 2 * maxParts ? [...content.slice(0, maxParts), ...content.slice(-maxParts)] : content
  return parts.map(part => (part.type === 'text' ? String(part.text) : '')).join('\n')
}
