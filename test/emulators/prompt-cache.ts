import { createHash } from 'node:crypto'

// biome-ignore lint/suspicious/noExplicitAny: request bodies come in every shape
type Any = any
/** A block in the order of the prompt, with the tokens up to its end and a digest of all that is before and in it. */
type Block = { key: string; tokens: number; mark: { ttl?: string } | undefined }
type Entry = { expiresMs: number; ttlMs: number }

const lifetimesMs: Record<string, number> = { '5m': 5 * 60_000, '1h': 3_600_000 }
/** How many blocks the search for a cached prefix goes back from a mark, itself included. */
const lookback = 20

/**
 * The prompt cache of a Messages API (platform.claude.com/docs/en/build-with-claude/prompt-caching): prefixes of tools,
 * system prompt and messages, by model and workspace, which are written at marks and found from marks.
 */
export class PromptCache {
  readonly #entries = new Map<string, Entry>()
  readonly #now: () => number

  constructor(now: () => number) {
    this.#now = now
  }

  /** The counters of a request's input, of which it reads and writes the cached part. `input_tokens` counts the rest. */
  usageOf(body: Any, workspace: string): Record<string, number | object> {
    const blocks = blocksIn(body, workspace)
    const tokensAt = (at: number) => blocks[at]?.tokens ?? 0
    const marks = blocks.flatMap(({ mark, tokens }, at) => (mark && tokens >= minTokens(body.model) ? [at] : []))
    const readTo = Math.max(-1, ...marks.map(at => this.#find(blocks, at)))
    let writtenTo = readTo
    const written = { '5m': 0, '1h': 0 }
    for (const at of [...(readTo >= 0 ? [readTo] : []), ...marks]) {
      const ttl = blocks[at]!.mark?.ttl === '1h' ? '1h' : '5m'
      this.#keep(blocks[at]!.key, ttl)
      if (at <= writtenTo) continue
      written[ttl] += tokensAt(at) - tokensAt(writtenTo)
      writtenTo = at
    }
    return {
      input_tokens: tokensAt(blocks.length - 1) - tokensAt(writtenTo),
      cache_creation_input_tokens: written['5m'] + written['1h'],
      cache_creation: { ephemeral_5m_input_tokens: written['5m'], ephemeral_1h_input_tokens: written['1h'] },
      cache_read_input_tokens: tokensAt(readTo),
    }
  }

  /** The end of the longest live prefix that is found from a mark; -1 if there is none. */
  #find(blocks: readonly Block[], mark: number): number {
    for (let at = mark; at >= 0 && at > mark - lookback; at--)
      if ((this.#entries.get(blocks[at]!.key)?.expiresMs ?? 0) > this.#now()) return at
    return -1
  }

  /** Writes an entry, or refreshes it. */
  #keep(key: string, ttl: '5m' | '1h'): void {
    const entry = this.#entries.get(key)
    const isLive = (entry?.expiresMs ?? 0) > this.#now()
    const ttlMs = Math.max(lifetimesMs[ttl]!, isLive ? entry!.ttlMs : 0)
    this.#entries.set(key, { ttlMs, expiresMs: this.#now() + ttlMs })
  }
}

/** Shorter prefixes are not cached, without an error. */
function minTokens(model: string): number {
  if (/^claude-(opus-4-[567]|haiku-4-5)/.test(model)) return 4096
  return /^claude-3-5-haiku/.test(model) ? 2048 : 1024
}

/** The blocks of a prompt. The mark at the top level is that of the last one. */
function blocksIn(body: Any, workspace: string): Block[] {
  const { model, tools = [], system, messages, tool_choice, thinking, cache_control } = body
  const contents = (messages as Any[]).flatMap(({ role, content }, i) =>
    blocksOf(content).map(block => ({ block, place: `${role} ${i}` })),
  )
  const all = [
    ...tools.map((block: Any) => ({ block, place: 'tool' })),
    ...blocksOf(system).map(block => ({ block, place: 'system' })),
    // What messages are cached with.
    ...contents.map(({ block, place }, i) => ({
      block,
      place: i === 0 ? JSON.stringify([place, tool_choice, thinking]) : place,
    })),
  ]
  let key = `${workspace} ${model}`
  let tokens = 0
  return all.map(({ block: { cache_control: own, ...block }, place }, at) => {
    key = createHash('sha256')
      .update(JSON.stringify([key, place, block]))
      .digest('base64url')
    tokens += Math.ceil((block.text ?? JSON.stringify(block)).length / 4)
    return { key, tokens, mark: own ?? (at === all.length - 1 ? cache_control : undefined) }
  })
}

function blocksOf(content: Any): Any[] {
  if (content === undefined) return []
  return typeof content === 'string' ? [{ type: 'text', text: content }] : content
}
