import type { Usage } from '../base/usage.ts'
import type { Ask, Content, Work } from './realtime-contract.ts'

/** How long an answer that was asked for may take to begin. */
const maxAskedMs = 30_000
/** What a provider is believed to have under way at a time, so that memory is bounded: clients are held to far fewer. */
const maxWorks = 256

/** Content without anything in it. */
export function noContent(): Content {
  return { textTokens: 0, audioTokens: 0, imageTokens: 0, textBytes: 0 }
}

const classes = Object.keys(noContent()) as (keyof Content)[]

/** Adds to a content, `times` times. */
export function addContent(sum: Content, more: Partial<Content>, times = 1): Content {
  for (const name of classes) sum[name] += times * (more[name] ?? 0)
  return sum
}

type Entry = Work & { sentMs: number; dismissed: boolean }

/** The answers, or other works, of one session that are asked for or begun. A provider begins them in the order in which they were asked for. */
export class Answers {
  readonly #begun = new Map<unknown, Entry>()
  #asked: Entry[] = []

  get underWay(): readonly Work[] {
    return [...this.#asked, ...this.#begun.values()]
  }

  get size(): number {
    return this.#asked.length + this.#begun.size
  }

  /** An answer was asked for at `nowMs`. */
  ask({ work }: Ask, nowMs: number): void {
    if (this.#asked.length < maxWorks) this.#asked.push({ ...work, sentMs: nowMs, dismissed: false })
  }

  /** The provider refused the answer that was asked for first. */
  refuse(): void {
    this.#asked.shift()
  }

  forget(nowMs: number): void {
    const [first] = this.#asked
    // A clock that was set back keeps nothing for ever.
    if (first && Math.abs(nowMs - first.sentMs) >= maxAskedMs) this.#asked.shift()
  }

  /** The provider began one: that which was asked for first, where there is one, which tells more of its prompt than `work`. */
  begin(id: unknown, work: Work): void {
    if (this.#begun.has(id)) return
    const asked = this.#asked.shift()
    if (this.#begun.size >= maxWorks) return
    const prompt = asked?.prompt ?? work.prompt
    this.#begun.set(id, { ...work, prompt, begun: true, sentMs: 0, dismissed: false })
  }

  /** Counts output that passed; without a known id it is taken for that of the oldest. */
  see(id: unknown, output: Partial<Content>): void {
    const entry = this.#begun.get(id) ?? this.#begun.values().next().value
    if (entry) addContent(entry.output, output)
  }

  /** One was reported. */
  end(id: unknown): Work | undefined {
    const entry = this.#begun.get(id)
    this.#begun.delete(id)
    return entry
  }

  /** The ids of those begun that were not dismissed before. */
  dismiss(): unknown[] {
    const entries = [...this.#begun].filter(([, entry]) => !entry.dismissed)
    for (const [, entry] of entries) entry.dismissed = true
    return entries.map(([id]) => id)
  }
}

/** Makes a work that is only asked for. */
export function workOf(
  prompt: Content,
  more: Partial<Pick<Work, 'upstreamModel' | 'maxOutputTokens' | 'speaks'>> = {},
): Work {
  return {
    upstreamModel: null,
    maxOutputTokens: null,
    speaks: true,
    ...more,
    prompt,
    output: noContent(),
    begun: false,
  }
}

/** A moment in a conversation: what had been added to it until then. */
export type Moment = Readonly<Content>

/**
 * How long the conversation of a session is, which is the prompt of its next answer: what the last usage told of it, and
 * what was added since.
 */
export class Conversation {
  #told = noContent()
  #toldAt: Moment = noContent()
  readonly #added = noContent()

  /** The conversation until now. */
  get content(): Content {
    return addContent(addContent({ ...this.#told }, this.#added), this.#toldAt, -1)
  }

  /** The moment that it has reached. */
  get moment(): Moment {
    return { ...this.#added }
  }

  add(content: Partial<Content>): void {
    addContent(this.#added, content)
  }

  /**
   * An answer that began at a moment told its usage: its prompt and its output are what the conversation was then. Where
   * the prompt may have been another one than the conversation, `isWhole` is false, and what is known is not lowered by it.
   */
  tell(usage: Usage, at: Moment, isWhole: boolean): void {
    const told = contentOf(usage)
    if (!isWhole && weightOf(told) <= weightOf(this.content)) return
    // Answers end in any order: what was told of a later moment stands.
    if (isWhole && classes.some(name => at[name] < this.#toldAt[name])) return
    this.#told = told
    this.#toldAt = at
  }
}

function weightOf(content: Content): number {
  return classes.reduce((sum, name) => sum + content[name], 0)
}

/** What a usage says that the next prompt has in it. */
function contentOf({ prompt_tokens: prompt, completion_tokens: completion, ...details }: Usage): Content {
  const { audio_tokens: audioIn = 0, image_tokens: images = 0 } = details.prompt_tokens_details ?? {}
  const { audio_tokens: audioOut = 0 } = details.completion_tokens_details ?? {}
  const audioTokens = Math.min(audioIn, prompt) + Math.min(audioOut, completion)
  const imageTokens = Math.min(images, prompt)
  const textTokens = Math.max(0, prompt + completion - audioTokens - imageTokens)
  return { textTokens, audioTokens, imageTokens, textBytes: 0 }
}
