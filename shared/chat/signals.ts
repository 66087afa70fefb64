import { crc32 } from 'node:zlib'
import type { Config } from '../base/config.ts'
import type { Bill, RunOutcome } from '../engine/report.ts'
import type { Policy } from '../keys/policy.ts'
import type { Features } from '../routing/features.ts'
import type { UsageSignals } from '../wallet/usage-event.ts'
import type { ChatRunInput } from './run-input.ts'

/** What a run with automatic routing says about the model; null where nothing is learned from it. */
export function signalsOf(
  { routingLearning }: Config,
  { keyId, learning }: Policy,
  { bulk, session, features }: Pick<ChatRunInput<'chat'>, 'bulk' | 'session' | 'features'>,
  { status, unusableCalls }: RunOutcome,
): UsageSignals | null {
  if (status >= 400 || bulk !== null || !routingLearning || !learning) return null
  const prompt = promptChecksum(keyId, session, features)
  return { ...(prompt && { prompt }), ...(unusableCalls && { unusableCalls: true }) }
}

/** Longer arguments are not checked. */
const maxCharacters = 100_000

type Call = { arguments?: unknown }
type Answer = {
  choices?: readonly { message?: { tool_calls?: readonly { function?: Call }[] | null } }[]
  output?: readonly (Call & { type?: string })[]
}

/** Whether a complete answer of Chat Completions or Responses calls a function with arguments that are not JSON. */
export function hasUnusableCalls({ finishReason }: Bill, { choices = [], output = [] }: Answer): boolean {
  if (finishReason !== 'tool_calls') return false
  const calls = choices.flatMap(({ message }) => message?.tool_calls ?? []).map(call => call.function)
  calls.push(...output.filter(({ type }) => type === 'function_call'))
  return calls.some(call => !isJson(call?.arguments))
}

function isJson(text: unknown): boolean {
  if (typeof text !== 'string' || text === '' || text.length > maxCharacters) return true
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Shorter texts, such as greetings, are often repeated by chance. */
const minCharacters = 24

/**
 * By what a repetition of the same prompt by the same key, in the same session, is recognised: a checksum of the session and
 * the last user message, and the size of the request. A collision within the minutes of a retry is rare and counts once.
 * Null for short texts.
 */
function promptChecksum(keyId: string, session: string | null, features: Features): string | null {
  const text = features.lastText()
  if (text.length < minCharacters) return null
  return `${keyId}.${features.promptTokensEstimate}.${crc32(text, crc32(session ?? ''))}`
}
