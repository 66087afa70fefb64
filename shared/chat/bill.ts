import type { ShownUsage, Usage } from '../base/usage.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Target } from '../providers/contract.ts'
import type { Ticket } from '../wallet/admission.ts'
import { chargeNano } from './pricing.ts'
import type { Relay } from './relay.ts'
import { countPrompt, countTokens } from './tokens.ts'

/** How a run ended and what it costs. */
export type Bill = {
  target: Target | null
  usage: Usage
  /** The usage as the client sees it, with its cost. */
  shownUsage: ShownUsage
  costNano: number
  status: number
  errorCode: string | null
  finishReason: string | null
  upstreamId: string | null
}

type Billing = { target: Target; ticket: Ticket; marginPpm: bigint; free: boolean }
type Finished<K extends DirectKind> = { kind: K; body: DirectKinds[K]['request']; upstreamId: string | null } & (
  | { answer: { usage?: unknown; choices?: unknown; data?: unknown } }
  | { relay: Relay; broken: boolean }
)

type Choice = { finish_reason?: string | null; text?: string; message?: Record<string, unknown> }

/**
 * The bill of a finished call: the provider's own count, or ours where it gave none. Nothing is billed for a generation that
 * produced nothing (contract §1); a capped key is never charged beyond its reservation, so that the cap holds whatever a
 * provider counts.
 */
export async function bill<K extends DirectKind>(
  { target, ticket, marginPpm, free }: Billing,
  finished: Finished<K>,
): Promise<Bill> {
  const { usage, produced, finishReason } = await outcome(finished)
  let costNano = free || !produced ? 0 : chargeNano(target.deployment, usage, marginPpm)
  if (ticket.spender.capNano !== null) costNano = Math.min(costNano, ticket.reservedNano)
  const { completion_tokens, ...prompt } = usage
  // Embeddings have no completion: OpenAI's own usage object names only two figures.
  const shown = finished.kind === 'embedding' ? prompt : { ...prompt, completion_tokens }
  const shownUsage = { ...shown, cost: costNano / 1e9 }
  return {
    target,
    usage,
    shownUsage,
    costNano,
    status: 200,
    errorCode: null,
    finishReason,
    upstreamId: finished.upstreamId,
  }
}

async function outcome<K extends DirectKind>(
  finished: Finished<K>,
): Promise<{ usage: Usage; produced: boolean; finishReason: string | null }> {
  const { kind, body } = finished
  if ('relay' in finished) {
    const { relay, broken } = finished
    // Of a stream that broke, the text that was delivered tells what was produced, and an early count may have none of it.
    const counts = !broken && (relay.usage?.completion_tokens ?? 0) > 0
    const produced = counts || relay.tally.text() !== ''
    const usage = relay.usage ?? (produced ? await counted(kind, body, relay.tally.text()) : zero)
    return { usage, produced, finishReason: relay.finishReason }
  }
  if (finished.answer.data) {
    const usage = finished.answer.usage as { prompt_tokens: number; total_tokens: number } | undefined
    return {
      usage: usage ? { completion_tokens: 0, ...usage } : await counted(kind, body, ''),
      produced: true,
      finishReason: null,
    }
  }
  const choices = (finished.answer.choices ?? []) as Choice[]
  const text = choices.map(textOf).join('')
  const usage = (finished.answer.usage as Usage | undefined) ?? (await counted(kind, body, text))
  const produced = usage.completion_tokens > 0 || text !== ''
  return { usage, produced, finishReason: choices[0]?.finish_reason ?? null }
}

const zero: Usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }

async function counted<K extends DirectKind>(kind: K, body: DirectKinds[K]['request'], text: string): Promise<Usage> {
  const [prompt_tokens, completion_tokens] = await Promise.all([countPrompt(kind, body), countTokens(text)])
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens, estimated: true }
}

function textOf({ text, message }: Choice): string {
  if (text !== undefined || !message) return text ?? ''
  const calls = message.tool_calls ? JSON.stringify(message.tool_calls) : ''
  const images = Array.isArray(message.images) ? ' image'.repeat(1_000 * message.images.length) : ''
  const audio = (message.audio as { transcript?: string } | null)?.transcript ?? ''
  return [message.content, message.reasoning_content, message.refusal, calls, images, audio]
    .filter(part => typeof part === 'string')
    .join('')
}
