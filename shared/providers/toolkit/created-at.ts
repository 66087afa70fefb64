import { unixNow } from '../../base/time.ts'

/** Whether a value is a time in whole seconds. */
export function isUnixTime(value: unknown): value is number {
  return Number.isSafeInteger(value)
}

/**
 * The time of an answer in whole seconds. SambaNova's has decimals, at which clients in Go fail (envoyproxy/ai-gateway#962,
 * QuantumNous/new-api#1131); others write a text or nothing (sashabaranov/go-openai#1002).
 */
export function createdAt(value: unknown): number {
  const seconds = typeof value === 'number' ? Math.trunc(value) : Number.NaN
  return isUnixTime(seconds) ? seconds : unixNow()
}
