import { setTimeout as sleep } from 'node:timers/promises'
import { ProviderError } from '../contract.ts'
import { type Answer, fault } from './answer.ts'

const longestWaitMs = 60_000
const fails = 'The sandbox fails, as the input asks.'
const isRateLimited = 'The sandbox is rate limited, as the input asks.'
const retryAfterMs = 1_000

export type Magic = { answer: Answer } | { waitMs: number } | null

/**
 * What the input text asks the sandbox to do instead of, or before, answering (the first such word counts):
 * `sandbox:fail` a 500, `sandbox:rate_limit` a 429, `sandbox:timeout` no answer ever, `sandbox:slow=<ms>` a late one.
 */
export function magicIn(text: string): Magic {
  const found = magicWordIn(text)
  if (found === null) return null
  const { word, waitMs } = found
  if (word === 'fail') return { answer: fault(500, fails, { type: 'server_error', code: null }) }
  if (word === 'rate_limit') {
    const details = { type: 'requests', code: 'rate_limit_exceeded' }
    return { answer: fault(429, isRateLimited, details, { 'retry-after': String(retryAfterMs / 1000) }) }
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

/** What a provider would say of the failures that a text can ask for. */
export const failures = {
  fail: () => new ProviderError('server_error', fails, { status: 500 }),
  rate_limit: () => new ProviderError('rate_limited', isRateLimited, { status: 429, retryAfterMs }),
}

/**
 * Does what the magic word of a text asks for. Throws the ProviderError that it asks for, one of a time-out when it asks for
 * more than `mostMs`, and an AbortError once nobody waits any more.
 */
export async function obey(text: string, mostMs: number, signal: AbortSignal): Promise<void> {
  const magic = magicWordIn(text)
  if (magic === null) return
  const { word, waitMs } = magic
  if (word === 'fail' || word === 'rate_limit') throw failures[word]()
  await sleep(Math.min(waitMs, mostMs), undefined, { signal })
  if (waitMs > mostMs) throw new ProviderError('timeout', 'The sandbox does not answer, as the input asks.')
}
