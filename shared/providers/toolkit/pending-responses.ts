import { elapsedMs, longAgo, type MonotonicMs } from '../../base/time.ts'
import type { Usage } from '../../base/usage.ts'
import type { Content, PendingWork, RealtimeUse, WorkRequest } from '../realtime-contract.ts'

/** Maximum delay between the request for a response and its begin. */
const maxBeginDelayMs = 30_000
/** Maximum tracked works per session, to bound memory: clients are limited to far fewer. */
const maxWorks = 256
/** Maximum ids of reported works that are remembered, to recognise a repeated report. */
const maxReported = 1_000

/** Content with all counts at zero. */
export function noContent(): Content {
  return { textTokens: 0, audioTokens: 0, imageTokens: 0, textBytes: 0 }
}

const classes = Object.keys(noContent()) as (keyof Content)[]

/** Adds `times` times `more` to a content. */
export function addContent(sum: Content, more: Partial<Content>, times = 1): Content {
  for (const name of classes) sum[name] += times * (more[name] ?? 0)
  return sum
}

type Entry = PendingWork & { sentMs: MonotonicMs; dismissed: boolean }

/**
 * The requested and begun responses, or other works, of one session. A provider begins them in the order of the
 * requests.
 */
export class PendingResponses {
  readonly #running = new Map<unknown, Entry>()
  #requested: Entry[] = []
  /** Ids of works whose usage was reported, oldest first. */
  readonly #reported = new Set<string>()

  get pendingWork(): readonly PendingWork[] {
    return [...this.#requested, ...this.#running.values()]
  }

  get size(): number {
    return this.#requested.length + this.#running.size
  }

  /** Records a request for a response at `nowMs`. */
  request({ work }: WorkRequest, nowMs: MonotonicMs): void {
    if (this.#requested.length < maxWorks) this.#requested.push({ ...work, sentMs: nowMs, dismissed: false })
  }

  /** Records that the provider refused the oldest request. */
  dropOldestRequest(): void {
    this.#requested.shift()
  }

  expireRequests(nowMs: MonotonicMs): void {
    const [first] = this.#requested
    if (first && elapsedMs(first.sentMs, nowMs) >= maxBeginDelayMs) this.#requested.shift()
  }

  /**
   * Records that the provider began a response: that of the oldest request, if there is one, whose prompt is more
   * precise than that of `work`. Returns whether it is tracked.
   */
  begin(id: unknown, work: PendingWork): boolean {
    if (this.#running.has(id)) return true
    if (typeof id === 'string') this.#reported.delete(id)
    const request = this.#requested.shift()
    if (this.#running.size >= maxWorks) return false
    const prompt = request?.prompt ?? work.prompt
    this.#running.set(id, { ...work, prompt, hasBegun: true, sentMs: longAgo, dismissed: false })
    return true
  }

  /** Counts relayed output; without a known id it counts for the oldest response. */
  countOutput(id: unknown, output: Partial<Content>): void {
    const entry = this.#running.get(id) ?? this.#running.values().next().value
    if (entry) addContent(entry.output, output)
  }

  /** Ends a response whose usage was reported. */
  end(id: unknown): PendingWork | undefined {
    const entry = this.#running.get(id)
    this.#running.delete(id)
    return entry
  }

  /** Records a report of usage; returns whether it repeats an earlier one of the same response, which has not begun again. */
  isRepeated(id: unknown): boolean {
    if (typeof id !== 'string') return false
    if (this.#reported.has(id)) return true
    this.#reported.add(id)
    const [oldest] = this.#reported
    if (this.#reported.size > maxReported) this.#reported.delete(oldest!)
    return false
  }

  /** Marks all begun responses as dismissed, and returns the ids of those that were not before. */
  dismiss(): unknown[] {
    const entries = [...this.#running].filter(([, entry]) => !entry.dismissed)
    for (const [, entry] of entries) entry.dismissed = true
    return entries.map(([id]) => id)
  }
}

/**
 * What an ended work has used: what was reported; or the work itself, to be estimated, if it delivered output and nothing was
 * reported for it. Some servers never report usage (`RealtimeResponse` in src/speaches/realtime/response_event_router.py of
 * speaches-ai/speaches); a response that failed before its output is reported with zeros
 * (twilio-samples/speech-assistant-openai-realtime-api-node, issues 30 and 37).
 */
export function usesOfEnded(reported: readonly RealtimeUse[], work: PendingWork | undefined): readonly RealtimeUse[] {
  if (!work || weightOf(work.output) === 0 || reported.some(statesUsage)) return reported
  return [{ upstreamModel: work.upstreamModel, unreported: work }]
}

function statesUsage(use: RealtimeUse): boolean {
  if ('seconds' in use) return use.seconds > 0
  return 'unreported' in use || use.usage.total_tokens > 0
}

/** Creates a work that is requested, not begun. */
export function newWork(
  prompt: Content,
  more: Partial<Pick<PendingWork, 'upstreamModel' | 'maxOutputTokens' | 'hasAudioOutput'>> = {},
): PendingWork {
  return {
    upstreamModel: null,
    maxOutputTokens: null,
    hasAudioOutput: true,
    ...more,
    prompt,
    output: noContent(),
    hasBegun: false,
  }
}

/** A position in a conversation: the content added until then. */
export type ConversationPosition = Readonly<Content>

/**
 * The size of a session's conversation, which is the prompt of its next response: the last reported usage, and the
 * content added since.
 */
export class ConversationSize {
  #reported = noContent()
  #reportedAt: ConversationPosition = noContent()
  readonly #added = noContent()

  /** The conversation so far. */
  get content(): Content {
    return addContent(addContent({ ...this.#reported }, this.#added), this.#reportedAt, -1)
  }

  /** The current position. */
  get position(): ConversationPosition {
    return { ...this.#added }
  }

  add(content: Partial<Content>): void {
    addContent(this.#added, content)
  }

  /**
   * Applies the usage of a response that began at a position: prompt plus output were the conversation then. `isWhole`
   * is false where the prompt may differ from the conversation; the size is not lowered then.
   */
  applyUsage(usage: Usage, at: ConversationPosition, isWhole: boolean): void {
    const reported = contentOf(usage)
    if (!isWhole && weightOf(reported) <= weightOf(this.content)) return
    // Responses end in any order: a report of a later position takes precedence.
    if (isWhole && classes.some(name => at[name] < this.#reportedAt[name])) return
    this.#reported = reported
    this.#reportedAt = at
  }
}

function weightOf(content: Content): number {
  return classes.reduce((sum, name) => sum + content[name], 0)
}

/** The content that a usage implies for the next prompt. */
function contentOf({ prompt_tokens: prompt, completion_tokens: completion, ...details }: Usage): Content {
  const { audio_tokens: audioIn = 0, image_tokens: images = 0 } = details.prompt_tokens_details ?? {}
  const { audio_tokens: audioOut = 0 } = details.completion_tokens_details ?? {}
  const audioTokens = Math.min(audioIn, prompt) + Math.min(audioOut, completion)
  const imageTokens = Math.min(images, prompt)
  const textTokens = Math.max(0, prompt + completion - audioTokens - imageTokens)
  return { textTokens, audioTokens, imageTokens, textBytes: 0 }
}
