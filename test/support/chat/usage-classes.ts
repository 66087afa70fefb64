import { deepEqual, equal } from 'node:assert/strict'
import fc from 'fast-check'
import type { Usage } from '../../../shared/base/usage.ts'
import type { ProviderRow } from '../../../shared/catalog/schema.ts'
import { bill, isBilledAsStated } from '../../../shared/chat/bill.ts'
import { chatFormat } from '../../../shared/chat/choices-format.ts'
import { relayFor } from '../../../shared/chat/choices-relay.ts'
import { messagesFormat } from '../../../shared/chat/messages-format.ts'
import { messagesRelayFor } from '../../../shared/chat/messages-relay.ts'
import type { AnswerRelay } from '../../../shared/chat/stream-relay.ts'
import type { Bill } from '../../../shared/engine/report.ts'
import type { MessagesUsage } from '../../../shared/kinds/messages.ts'
import type { Call } from '../../../shared/providers/contract.ts'
import { protocols } from '../../../shared/providers/protocols.ts'
import { messagesOverChat } from '../../../shared/providers/toolkit/messages-over-chat/adapter.ts'
import { type Message, messageEvents } from '../../emulators/anthropic.ts'
import { framed } from '../../emulators/emulator.ts'
import { piece } from '../../emulators/gemini.ts'
import { chatChunk } from '../../emulators/openai.ts'
import { call as callTo } from '../providers/openai-call.ts'
import { dataOf } from './gateway.ts'
import type { Dialect } from './streams.ts'

/** Every token of a call, in the one class that it is billed as; reasoning is billed as output. */
type Classes = { text: number; cached: number; written5m: number; written1h: number; output: number; reasoning: number }
/** Dollars per million tokens: a different price for each class, so that a token in a wrong one changes the cost. */
const usd = { input: '2', cached_input: '0.3', cache_write: '5', cache_write_1h: '7', output: '11' }

const tokens = fc.oneof(fc.constant(0), fc.nat({ max: 300_000 }))
const classes: fc.Arbitrary<Classes> = fc.record(
  {
    // No prompt is nothing.
    text: fc.integer({ min: 1, max: 300_000 }),
    cached: tokens,
    written5m: tokens,
    written1h: tokens,
    output: fc.integer({ min: 1, max: 100_000 }),
    reasoning: tokens,
  },
  { noNullPrototype: true },
)
type Case = { classes: Classes; includeUsage: boolean; packetBytes: number }
const cases: fc.Arbitrary<Case> = fc.record({
  classes,
  includeUsage: fc.boolean(),
  packetBytes: fc.integer({ min: 1, max: 2_000 }),
})

/** An answer with this usage in its provider's own form: whole, and as the payloads of a stream. */
type Native = { classes: Classes; whole: object; stream: (object | string)[] }

function openaiAnswer(given: Classes, reasoningIsBeside = false): Native {
  // Its cache has one lifetime.
  const classes = { ...given, written5m: given.written5m + given.written1h, written1h: 0 }
  const prompt_tokens = classes.text + classes.cached + classes.written5m
  const completion_tokens = classes.output + (reasoningIsBeside ? 0 : classes.reasoning)
  const usage = {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + classes.output + classes.reasoning,
    prompt_tokens_details: { cached_tokens: classes.cached, cache_write_tokens: classes.written5m },
    completion_tokens_details: { reasoning_tokens: classes.reasoning },
  }
  const choices = [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }]
  return {
    classes,
    whole: { id: 'c', object: 'chat.completion', created: 1, model: 'up', choices, usage },
    stream: [
      chatChunk({ role: 'assistant', content: 'Hello' }),
      chatChunk({}, 'stop'),
      { ...chatChunk({}), choices: [], usage },
      '[DONE]',
    ],
  }
}

function anthropicAnswer(classes: Classes): Native {
  const whole: Message = {
    ...({ id: 'msg_1', type: 'message', role: 'assistant', model: 'up' } as const),
    content: [{ type: 'text', text: 'Hello' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    stop_details: null,
    usage: {
      input_tokens: classes.text,
      cache_read_input_tokens: classes.cached,
      cache_creation_input_tokens: classes.written5m + classes.written1h,
      cache_creation: {
        ephemeral_5m_input_tokens: classes.written5m,
        ephemeral_1h_input_tokens: classes.written1h,
      },
      output_tokens: classes.output + classes.reasoning,
      output_tokens_details: { thinking_tokens: classes.reasoning },
    },
  }
  return { classes, whole, stream: messageEvents(whole) }
}

function geminiAnswer(given: Classes): Native {
  // It charges for the storage of caches, not for writing them.
  const classes = { ...given, text: given.text + given.written5m + given.written1h, written5m: 0, written1h: 0 }
  const promptTokenCount = classes.text + classes.cached
  const usageMetadata = {
    promptTokenCount,
    cachedContentTokenCount: classes.cached,
    candidatesTokenCount: classes.output,
    thoughtsTokenCount: classes.reasoning,
    totalTokenCount: promptTokenCount + classes.output + classes.reasoning,
  }
  const whole = piece('Hello', 'STOP', { usageMetadata })
  return { classes, whole, stream: [whole] }
}

export const dialects: [name: string, Dialect, (classes: Classes) => Native][] = [
  ['openai', 'openai', openaiAnswer],
  ['openai, reasoning beside the completion', 'openai', classes => openaiAnswer(classes, true)],
  ['anthropic', 'anthropic', anthropicAnswer],
  ['gemini', 'gemini', geminiAnswer],
]

/** A call of a kind to a target of a protocol, with the prices above. */
function callOf<K extends 'chat' | 'messages'>(protocol: Dialect): Call<K> {
  const call = callTo<K>({ model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] } as Call<K>['body'])
  const provider: ProviderRow = { ...call.target.provider, protocol }
  const deployment = { ...call.target.deployment, price: { unit: 'token' as const, ...usd } }
  return { ...call, target: { ...call.target, provider, deployment } }
}

/** The relay of a stream that has arrived in packets of this size, and what it wrote. */
function relayed(relay: AnswerRelay, native: Native, packetBytes: number): { relay: AnswerRelay; written: string } {
  const bytes = Buffer.from(framed(native.stream))
  let written = ''
  for (let at = 0; at < bytes.length && !relay.over; at += packetBytes) {
    relay.feed(bytes.subarray(at, at + packetBytes))
    written += relay.flush()
  }
  relay.close()
  return { relay, written: written + relay.flush() }
}

function nanoOf({ text, cached, written5m, written1h, output, reasoning }: Classes): number {
  const micro = text * 2 + cached * 0.3 + written5m * 5 + written1h * 7 + (output + reasoning) * 11
  return Math.round(micro * 1_000)
}

/** The classes that a usage shows. */
function classesOf({ prompt_tokens, completion_tokens, ...details }: Usage): Classes {
  const { cached_tokens: cached = 0, cache_write_tokens: written = 0 } = details.prompt_tokens_details ?? {}
  const { cache_write_1h_tokens: written1h = 0 } = details.prompt_tokens_details ?? {}
  const { reasoning_tokens: reasoning = 0 } = details.completion_tokens_details ?? {}
  const text = prompt_tokens - cached - written
  return { text, cached, written5m: written - written1h, written1h, output: completion_tokens - reasoning, reasoning }
}

/** The classes that the usage of a Message shows. */
function classesOfMessage(usage: MessagesUsage): Classes {
  const { cache_creation_input_tokens: written, cache_creation: writes, output_tokens_details: details } = usage
  const written1h = writes?.ephemeral_1h_input_tokens ?? 0
  const reasoning = (details as { thinking_tokens?: number } | null | undefined)?.thinking_tokens ?? 0
  return {
    text: usage.input_tokens,
    cached: usage.cache_read_input_tokens ?? 0,
    written5m: (written ?? 0) - written1h,
    written1h,
    output: usage.output_tokens - reasoning,
    reasoning,
  }
}

/** The usage in the events of a Messages stream: counters that a later event repeats as null do not change. */
function usageOfEvents(written: string): MessagesUsage {
  const reports = dataOf(written).flatMap(event => event.message?.usage ?? event.usage ?? [])
  const stated = reports.map(report => Object.entries(report).filter(([, count]) => count !== null))
  return Object.assign({}, ...stated.map(Object.fromEntries))
}

/** Checks a bill: every token in its class, priced once, and all of them together the total. */
function checkBill({ usage, shownUsage, costNano }: Bill, { classes }: Native, given: Classes): void {
  deepEqual(classesOf(usage), classes)
  deepEqual(classesOf(shownUsage as Usage), classes)
  equal(
    shownUsage.total_tokens,
    Object.values(given).reduce((sum, count) => sum + count),
  )
  equal(costNano, nanoOf(classes))
}

const margin = { marginPpm: 0n, free: false }

async function checkChat(dialect: Dialect, native: Native, { classes, includeUsage, packetBytes }: Case) {
  const call = callOf<'chat'>(dialect)
  const adapter = protocols[dialect]!.direct.chat!
  const head = { id: 'gen-1', object: 'chat.completion.chunk', created: 1, model: 'm' }
  const stream = relayFor({ adapter, call, requests: [null] }, head, { choices: 1, includeUsage })
  const { relay } = relayed(stream, native, packetBytes)
  const { billed } = await chatFormat.billAnswer({ adapter, call, json: native.whole, id: 'gen-1' }, margin)
  checkBill(billed, native, classes)
  const info = { format: chatFormat, body: call.body, upstreamId: null, broken: false } as const
  checkBill(await bill({ target: call.target, ...margin }, { ...info, relay }), native, classes)
}

async function checkMessages(dialect: Dialect, native: Native, { classes, packetBytes }: Case) {
  const call = callOf<'messages'>(dialect)
  const { direct } = protocols[dialect]!
  const adapter = direct.messages ?? messagesOverChat(direct.chat!)
  const stream = messagesRelayFor(
    { adapter, call, requests: [null] },
    {
      id: 'gen-1',
      requestId: 'req',
      isBilled: (stated, shown, bill) => isBilledAsStated(stated, shown, { target: call.target }, bill),
    },
  )
  const { relay, written } = relayed(stream, native, packetBytes)
  const whole = { adapter, call, json: native.whole, id: 'gen-1' }
  const { billed, shown } = await messagesFormat.billAnswer(whole, margin)
  checkBill(billed, native, classes)
  deepEqual(classesOfMessage((shown as { usage: MessagesUsage }).usage), native.classes)
  const info = { format: messagesFormat, body: call.body, upstreamId: null, broken: false } as const
  const streamed = await bill({ target: call.target, ...margin }, { ...info, relay })
  checkBill(streamed, native, classes)
  relay.restate?.(streamed.shownUsage)
  deepEqual(classesOfMessage(usageOfEvents(written + relay.flush())), native.classes)
}

/**
 * Checks for random usages that every token is in exactly one class and charged once, by chat and by Messages, in whole
 * answers and in streams, and that Messages show the same classes.
 */
export async function checkUsageClasses(
  dialect: Dialect,
  answerOf: (classes: Classes) => Native,
  runs: number,
): Promise<void> {
  const property = fc.asyncProperty(cases, async one => {
    const native = answerOf(one.classes)
    await checkChat(dialect, native, one)
    await checkMessages(dialect, native, one)
  })
  await fc.assert(property, { numRuns: runs, includeErrorInReport: true })
}
