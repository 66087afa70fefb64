import type { Usage } from '../../base/usage.ts'
import type { Ask, Content, RealtimeMeter, RealtimeUse, Work } from '../realtime-contract.ts'
import { Answers, addContent, Conversation, type Moment, noContent, workOf } from '../session-answers.ts'
import { growth, liveUsage } from './live-usage.ts'

const nothing: readonly RealtimeUse[] = []
const setupComplete = Buffer.from('"setupComplete"')
const usageMetadata = Buffer.from('"usageMetadata"')
/** Signs of an answer, and of its end: in texts their quotes are escaped, in sound there are none. */
const answering = ['"modelTurn"', '"toolCall"'].map(text => Buffer.from(text))
const ends = ['"turnComplete"', '"toolCall"'].map(text => Buffer.from(text))

/** What asks for an answer for certain, in either spelling that Google takes; with an escape it could be spelt otherwise. */
const asking =
  /"turn_?complete"\s*:\s*true|"(?:activity_?end|audio_?stream_?end|tool_?response)"|"realtime_?input"\s*:\s*\{\s*"text"|\\u00(?:2e|5f|[46][1-9a-f]|[57][\da])/i
const data = /"data"\s*:\s*"([A-Za-z0-9+/=_\\-]*)"/g
const picture = /"(?:image|video)\\?\//
/** Base64 characters a token of sound: 25 tokens a second at most of 8 kHz PCM in, of 24 kHz PCM out. */
const charactersPerToken = { input: (8_000 * 2 * 4) / 3 / 25, output: (24_000 * 2 * 4) / 3 / 25 }
const tokensPerImage = 1_290
/** Of the one answer under way. */
const id = 'answer'

/** Reads one session of Google's Live API. One answer is under way at a time: what asks for another interrupts it. */
export class Meter implements RealtimeMeter {
  readonly ownClock = false
  readonly sessionSeconds = null
  begun = false
  readonly #answers = new Answers()
  readonly #conversation = new Conversation()
  #moment: Moment = this.#conversation.moment
  #earlier: Moment = this.#moment
  /** What was reported of the answer under way; null = nothing yet. */
  #reported: Usage | null = null

  get owing(): boolean {
    return this.#answers.size > 0
  }

  get underWay(): readonly Work[] {
    return this.#answers.underWay
  }

  asks(frame: Buffer): Ask | null {
    if (!this.begun) return null
    const text = frame.toString('latin1')
    const work = workOf(addContent(this.#conversation.content, contentOf(text)))
    return { work, certain: asking.test(text) }
  }

  sent(frame: Buffer, ask: Ask | null, nowMs: number): void {
    if (ask?.certain) this.#answers.ask(ask, nowMs)
    this.#conversation.add(contentOf(frame.toString('latin1')))
  }

  forget(nowMs: number): void {
    this.#answers.forget(nowMs)
    this.#earlier = this.#moment
    this.#moment = this.#conversation.moment
  }

  farewell(): readonly string[] {
    return []
  }

  read(frame: Buffer): readonly RealtimeUse[] {
    if (!this.begun && frame.includes(setupComplete)) this.begun = true
    if (answering.some(sign => frame.includes(sign))) {
      this.#answers.begin(id, workOf(this.#conversation.content))
      this.#answers.see(id, seen(frame.toString('latin1')))
    }
    const uses = frame.includes(usageMetadata) ? this.#count(frame) : nothing
    if (this.#reported && ends.some(sign => frame.includes(sign))) this.#reported = null
    return uses
  }

  /**
   * Each answer has a usage of its own, with all that was said before in its prompt. Another report of the same answer stands
   * in place of the one before it: what it has more is counted.
   */
  #count(frame: Buffer): readonly RealtimeUse[] {
    const usage = liveUsage(messageOf(frame).usageMetadata)
    if (!usage) return nothing
    this.#answers.end(id)
    this.#conversation.tell(usage, this.#earlier, true)
    const before = this.#reported?.prompt_tokens === usage.prompt_tokens ? this.#reported : null
    if (!before || usage.completion_tokens > before.completion_tokens) this.#reported = usage
    const counted = before ? growth(before, usage) : usage
    return counted.total_tokens > 0 ? [{ upstreamModel: null, usage: counted }] : nothing
  }
}

/** The most that a client's frame brings into a prompt. */
function contentOf(text: string): Content {
  let characters = 0
  let count = 0
  for (const [, { length }] of text.matchAll(data) as Iterable<[string, string]>) {
    characters += length
    count++
  }
  const content = addContent(noContent(), { textBytes: text.length - characters })
  if (picture.test(text)) content.imageTokens = count * tokensPerImage
  else content.audioTokens = characters / charactersPerToken.input
  return content
}

/** What a frame of the provider's brings of an answer. */
function seen(text: string): Partial<Content> {
  const characters = [...text.matchAll(data)].reduce((sum, [, found]) => sum + found!.length, 0)
  if (characters === 0) return { textBytes: text.length }
  return { audioTokens: characters / charactersPerToken.output }
}

function messageOf(frame: Buffer): { usageMetadata?: unknown } {
  try {
    return JSON.parse(frame.toString()) ?? {}
  } catch {
    return {}
  }
}
