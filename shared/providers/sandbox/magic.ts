import { type Answer, fault } from './answer.ts'

const longestWaitMs = 60_000

export type Magic = { answer: Answer } | { waitMs: number } | null

/**
 * What the input text asks the sandbox to do instead of, or before, answering (the first such word counts):
 * `sandbox:fail` a 500, `sandbox:rate_limit` a 429, `sandbox:timeout` no answer ever, `sandbox:slow=<ms>` a late one.
 */
export function magicIn(text: string): Magic {
  const found = magicWordIn(text)
  if (found === null) return null
  const { word, waitMs } = found
  if (word === 'fail') {
    return { answer: fault(500, 'The sandbox fails, as the input asks.', { type: 'server_error', code: null }) }
  }
  if (word === 'rate_limit') {
    const details = { type: 'requests', code: 'rate_limit_exceeded' }
    return { answer: fault(429, 'The sandbox is rate limited, as the input asks.', details, { 'retry-after': '1' }) }
  }
  return { waitMs }
}

/** The first magic word of a text, and how long it delays the end: for ever with `timeout`, at most a minute with `slow`. */
export function magicWordIn(text: string): { word: 'fail' | 'rate_limit' | 'timeout' | 'slow'; waitMs: number } | null {
  const [, word, delayMs] = /sandbox:(fail|rate_limit|timeout|slow=(\d{1,9}))\b/.exec(text) ?? []
  if (word === undefined) return null
  if (word === 'timeout') return { word, waitMs: Infinity }
  if (word === 'fail' || word === 'rate_limit') return { word, waitMs: 0 }
  return { word: 'slow', waitMs: Math.min(Number(delayMs), longestWaitMs) }
}
