import { redact, withoutFiles } from '../base/redact.ts'
import { type Clock, dayMs } from '../base/time.ts'
import type { FileOwner } from '../files/files.ts'
import type { Database } from '../io/db.ts'
import type { Logger } from '../io/log.ts'
import type { ContentLogging } from '../keys/content-logging.ts'
import { ContentCopy, HeldContent, maxContentBytes } from './content-copy.ts'
import type { Contents } from './contents.ts'
import { joinStream } from './join-stream.ts'

/** A request whose input and output is to be stored. */
type LoggedRequest = FileOwner & {
  /** The id of its generation. */
  id: string
  kind: string
  startedMs: number
  input: Buffer
  /** Whether the input may contain files, which are removed. */
  hasFiles: boolean
  copy: ContentCopy
}

/** A request that is over, of a key with this policy; without an id or an input it is not logged. */
type EndedRequest = Omit<LoggedRequest, 'id' | 'input' | 'copy' | keyof FileOwner> & {
  policy: FileOwner & { contentLogging: ContentLogging | null }
  id: unknown
  failed: boolean
  input: Buffer | null
}

/** A request that waits to be stored. */
type Waiting = LoggedRequest & { inputTruncated: boolean }

/** What all copies and waiting requests of a process may hold. */
const maxHeldBytes = 64 * 1024 * 1024
const maxWaiting = 1_000
/** Requests that are stored at a time. */
const writers = 4

/**
 * Stores the input and output of requests in the background (docs/decisions/input-output-log.md). What exceeds its memory or
 * cannot be stored is dropped and counted: it never holds up a request.
 */
export class ContentLog {
  readonly #deps: { contents: Contents; db: Database; clock: Clock; log: Logger }
  readonly #held = new HeldContent(maxHeldBytes)
  readonly #waiting: Waiting[] = []
  readonly #writing = new Set<Promise<void>>()
  #dropped = 0
  #lastError: unknown = null

  constructor(deps: { contents: Contents; db: Database; clock: Clock; log: Logger }) {
    this.#deps = deps
  }

  /** Begins a copy for a request of a key with this setting; null if the request is not to be logged. */
  open({ mode, percent, untilMs }: ContentLogging, { withOutput }: { withOutput: boolean }): ContentCopy | null {
    if (untilMs <= this.#deps.clock.now()) return null
    if (mode === 'sample' && Math.random() * 100 >= percent) return null
    return new ContentCopy(this.#held, withOutput)
  }

  /** Takes over a request and its copy, unless the key's policy, which may have changed since, no longer wants it. */
  addWanted(copy: ContentCopy, { policy, id, failed, input, ...request }: EndedRequest): void {
    const { contentLogging, organisationId, environment } = policy
    const isWanted = contentLogging !== null && (failed || contentLogging.mode !== 'errors')
    if (isWanted && input && typeof id === 'string')
      this.#add({ ...request, id, input: copy.masked?.input ?? input, copy, organisationId, environment })
    else copy.release()
  }

  #add(request: LoggedRequest): void {
    const inputTruncated = request.input.length > maxContentBytes
    // A copy, because a part would keep the whole alive.
    const input = inputTruncated ? Buffer.from(request.input.subarray(0, maxContentBytes)) : request.input
    if (this.#waiting.length < maxWaiting && this.#held.take(input.length)) {
      this.#waiting.push({ ...request, input, inputTruncated })
    } else {
      request.copy.release()
      this.#dropped++
    }
    this.#write()
  }

  /** Resolves once everything is stored that was added. */
  async flush(): Promise<void> {
    while (this.#writing.size > 0) await Promise.all(this.#writing)
  }

  #write(): void {
    while (this.#writing.size < writers && this.#waiting.length > 0) {
      const request = this.#waiting.shift()!
      const written = this.#store(request)
        .catch(error => {
          this.#dropped++
          this.#lastError = error
        })
        .then(() => {
          request.copy.release()
          this.#held.give(request.input.length)
          this.#writing.delete(written)
          this.#write()
        })
      this.#writing.add(written)
    }
    if (this.#writing.size === 0 && this.#dropped > 0) this.#report()
  }

  /** One line for all that was dropped since the log was last idle. */
  #report(): void {
    const requests = this.#dropped
    this.#deps.log.warn({ requests, err: this.#lastError ?? undefined }, 'input and output of requests is not logged')
    this.#dropped = 0
    this.#lastError = null
  }

  async #store({ id, organisationId, environment, kind, startedMs, ...request }: Waiting): Promise<void> {
    const { contents, db } = this.#deps
    const select = { contentRetentionDays: true, contentRedactEmails: true } as const
    const settings = await db.organisation.findUnique({ where: { id: organisationId }, select })
    if (!settings) return
    const { copy } = request
    const sent = copy.text()
    const joined = sent !== null && copy.isStream ? JSON.stringify(await joinStream(kind, sent)) : sent
    const answer = joined && copy.masked ? masked(joined, copy.masked.placeholders) : joined
    const rules = { emails: settings.contentRedactEmails }
    const text = request.inputTruncated ? withoutLastWord(request.input.toString()) : request.input.toString()
    const input = redact(request.hasFiles ? withoutFiles(text) : text, rules)
    const output = answer === null ? null : redact(copy.isTruncated ? withoutLastWord(answer) : answer, rules)
    const facts = {
      id,
      inputTruncated: request.inputTruncated,
      outputTruncated: copy.isTruncated,
      redactions: input.count + (output?.count ?? 0),
      createdAt: new Date(startedMs),
      expiresAt: new Date(startedMs + settings.contentRetentionDays * dayMs),
    }
    await contents.store({ organisationId, environment }, facts, { input: input.text, output: output?.text ?? null })
  }
}

/** No secret is longer. */
const maxWordCharacters = 4_096

/** A text that was cut off, without its last word: the beginning of a secret is not recognised. */
function withoutLastWord(text: string): string {
  for (let end = text.length; end > text.length - maxWordCharacters && end > 0; end--)
    if (/[\s"]/.test(text.charAt(end - 1))) return text.slice(0, end)
  return text
}

/** An answer with the placeholders that its request has in the log. */
function masked(answer: string, placeholders: ReadonlyMap<string, string>): string {
  let text = answer
  for (const [value, placeholder] of placeholders)
    text = text.replaceAll(JSON.stringify(value).slice(1, -1), () => placeholder)
  return text
}
