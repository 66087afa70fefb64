import { GatewayError } from '../base/errors.ts'
import { editBody } from '../base/json-member.ts'
import { elapsedMs } from '../base/time.ts'
import { compacts } from '../catalog/traits.ts'
import type { RunServices } from '../engine/base-run.ts'
import { BufferedResponse } from '../engine/buffered-response.ts'
import type { ResponseWriter } from '../engine/response-writer.ts'
import {
  compactionThreshold,
  inputItems,
  isCompaction,
  isItem,
  isMessageItem,
  type ResponsesItem,
  type ResponsesMessage,
  type ResponsesRequest,
} from '../kinds/responses.ts'
import type { ResponsesObject } from '../kinds/responses-answer.ts'
import type { Target } from '../providers/contract.ts'
import { isEnvelope } from '../providers/toolkit/reasoning-envelope.ts'
import { snapshotOf } from '../routing/options.ts'
import { marginOf } from '../routing/pricing.ts'
import { responsesFeatures } from '../routing/responses-features.ts'
import { route } from '../routing/router.ts'
import type { ChatRunInput } from './run-input.ts'
import { findStickyTarget } from './sticky-target.ts'

type Input = ChatRunInput<'responses'>
type Run = (services: RunServices, input: Input, client: ResponseWriter) => Promise<unknown>

/** What is kept of the user's messages beside a summary, the latest first, as OpenAI keeps 64,000 tokens (openai/codex, compact_remote_v2.rs). */
export const maxKeptCharacters = 256_000

/** The threshold of a request that states none, as a part of the model's context (@openai/agents-core, sandbox/capabilities/compaction). */
const defaultPart = 0.9

/**
 * The input of a request with `context_management` as it is run. Models that manage the context by themselves get the member;
 * for all others the conversation is replaced by a summary first, by a request of its own, once it is longer than the
 * threshold. The summary leads the items of the answer. Throws what that request throws, unless its providers failed.
 */
export async function manageContext(
  services: RunServices,
  input: Input,
  client: ResponseWriter,
  run: Run,
): Promise<Input> {
  const began = services.monotonic.now()
  const pruned = withoutCompacted(input)
  const target = await firstTarget(services, pruned)
  if (!target || managesContext(services, pruned, target)) return pruned
  const { context_management, ...body } = pruned.body
  const threshold = compactionThreshold({ context_management }) ?? (target.model.context_length ?? 0) * defaultPart
  const items = inputItems(body)
  const isLong = threshold > 0 && pruned.features.promptTokensEstimate > threshold
  if (!isLong || !items.some(isSummarised)) return withBody(pruned, body)
  const summary = await summarise(services, { ...pruned, body }, client, run)
  if (!summary) return pruned
  const first = items.findLastIndex(item => !isFromUser(item)) + 1
  const kept = [...keptItems(items.slice(0, first), threshold * 2), summary, ...items.slice(first)]
  const { timeouts } = input
  const spentMs = elapsedMs(began, services.monotonic.now())
  const totalMs = timeouts?.totalMs === undefined ? undefined : Math.max(1, timeouts.totalMs - spentMs)
  return {
    ...withBody(pruned, { ...body, input: kept }),
    ...(totalMs !== undefined && { timeouts: { ...timeouts, totalMs } }),
    leading: summary,
  }
}

/** The target that a request goes to first; null if none serves it, which its run reports. */
async function firstTarget(services: RunServices, input: Input): Promise<Target | null> {
  const { kind, key, body, features, session, requestId } = input
  const { policy } = key
  const { sticky } = await findStickyTarget(services, policy, input)
  const inputs = snapshotOf(services, marginOf(services.config, kind, 0n))
  try {
    const query = { policy, kind, request: body, features, sticky, seed: session ?? requestId, session }
    return route(inputs, query, 'no').targets[0] ?? null
  } catch (error) {
    if (error instanceof GatewayError) return null
    throw error
  }
}

function managesContext({ upstreams }: RunServices, { kind, key, body }: Input, target: Target): boolean {
  const served = upstreams.adapter(kind, target, key.policy.environment, body)
  return served?.adapter.native === true && compacts(target)
}

/** The item that a request for a summary was answered with; null if no provider could write one. */
async function summarise(
  services: RunServices,
  input: Input,
  client: ResponseWriter,
  run: Run,
): Promise<SummaryItem | null> {
  const { body, storage: _, present: __, ...rest } = input
  const { stream: ___, max_output_tokens: ____, ...asked } = body
  const request = { ...asked, input: [...inputItems(body), { type: 'compaction_trigger' as const }], store: false }
  const writer = new BufferedResponse()
  client.onGone(() => writer.leave(client.leaving ?? null))
  try {
    await run(services, { ...withBody({ ...rest, body }, request), stream: false }, writer)
  } catch (error) {
    if (error instanceof GatewayError && error.status >= 500) return null
    throw error
  }
  const { output = [] } = JSON.parse(writer.body ?? '{}') as Partial<ResponsesObject>
  return output.find(item => item.type === 'compaction') ?? null
}

type SummaryItem = Extract<ResponsesObject['output'][number], { type: 'compaction' }>

/** Items before the last summary of the gateway's stand for nothing but themselves: clients may keep sending them. */
function withoutCompacted(input: Input): Input {
  const { body } = input
  const items = inputItems(body)
  const last = items.findLastIndex(isCompaction)
  const summary = items[last]
  if (!summary || !isCompaction(summary) || !isEnvelope(summary.encrypted_content)) return input
  const before = items.slice(0, last)
  const threshold = compactionThreshold(body)
  const kept = keptItems(before, threshold === null ? maxKeptCharacters : threshold * 2)
  return kept.length === before.length ? input : withBody(input, { ...body, input: [...kept, ...items.slice(last)] })
}

/** What is kept of items that a summary stands for: instructions, tools, and the latest messages of the user. */
function keptItems(items: readonly ResponsesItem[], maxCharacters: number): ResponsesItem[] {
  const latest = new Set<ResponsesItem>(latestUserMessages(items, Math.min(maxCharacters, maxKeptCharacters)))
  return items.filter(item => latest.has(item) || !(isSummarised(item) || isFromUser(item)))
}

/** The latest messages of the user that together have at most `maxCharacters`, oldest first. */
export function latestUserMessages(items: readonly ResponsesItem[], maxCharacters: number): ResponsesMessage[] {
  const kept: ResponsesMessage[] = []
  let characters = 0
  for (const item of items.toReversed()) {
    if (!isFromUser(item)) continue
    characters += JSON.stringify(item.content).length
    if (characters > maxCharacters) break
    kept.push(item)
  }
  return kept.reverse()
}

function isFromUser(item: ResponsesItem): item is ResponsesMessage {
  return isMessageItem(item) && item.role === 'user'
}

/** Whether a summary replaces an item: what models and tools wrote, and earlier summaries. */
function isSummarised(item: ResponsesItem): boolean {
  return isMessageItem(item) ? item.role === 'assistant' : !isItem(item, 'additional_tools')
}

/** The input with another body, of which all that was measured is measured again. */
function withBody(input: Input, body: ResponsesRequest): Input {
  const { raw, features } = input
  const { tier } = features
  const isSameInput = body.input === input.body.input && raw !== null
  const text = isSameInput
    ? editBody(raw, input.body, { context_management: undefined })
    : Buffer.from(JSON.stringify(body))
  const bytes = typeof text === 'string' ? Buffer.from(text) : text
  return {
    ...input,
    body,
    raw: isSameInput ? bytes : null,
    releaseRaw: undefined,
    features: { ...responsesFeatures(body, bytes.length), ...(tier && { tier }) },
  }
}
