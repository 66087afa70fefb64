/** Answers with more tokens, and those with fewer, count as these. Powers of two. */
const minTokens = 1_024
const maxTokens = 32_768
const buckets = Math.log2(maxTokens / minTokens) + 1
/** The assumption until enough answers are known. */
const defaultTokens = 4_096
const minAnswers = 20
/** Older answers count half each time this many have come. */
const maxAnswers = 256
const percentile = 0.95
const maxHistories = 10_000

/** How many of a key's recent answers by a model had up to 1,024, 2,048, … 32,768 output tokens. */
type History = { counts: number[]; answers: number }

/**
 * Learns how long the answers to a key's requests are, by model, from those that this process has served. A reservation
 * is based on it, never a limit or a charge. The oldest of more than 10,000 histories is forgotten.
 */
export class OutputHistory {
  readonly #histories = new Map<string, History>()

  /** Output tokens that 95 % of the recent answers did not exceed, rounded up to a power of two: 1,024 to 32,768. */
  likelyTokens(keyId: string, model: string): number {
    const history = this.#histories.get(`${keyId} ${model}`)
    if (!history || history.answers < minAnswers) return defaultTokens
    let answers = 0
    const bucket = history.counts.findIndex(count => (answers += count) >= history.answers * percentile)
    return minTokens * 2 ** bucket
  }

  /** Records the output tokens of an answer. */
  record(keyId: string, model: string, tokens: number): void {
    const history = this.#historyOf(`${keyId} ${model}`)
    const bucket = Math.ceil(Math.log2(Math.max(tokens, minTokens) / minTokens))
    history.counts[Math.min(bucket, buckets - 1)]! += 1
    if (++history.answers < maxAnswers) return
    history.counts = history.counts.map(count => count / 2)
    history.answers /= 2
  }

  #historyOf(name: string): History {
    let history = this.#histories.get(name)
    if (!history) {
      if (this.#histories.size >= maxHistories) this.#histories.delete(this.#histories.keys().next().value!)
      history = { counts: new Array<number>(buckets).fill(0), answers: 0 }
      this.#histories.set(name, history)
    }
    return history
  }
}
