import fc from 'fast-check'
import { serviceTiers } from '../../../shared/base/service-tier.ts'
import type { Usage } from '../../../shared/base/usage.ts'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import { priceAt, tokenCost } from '../../../shared/catalog/prices.ts'
import {
  billsDocumentText,
  canReason,
  maxAudioTokensPerSecond,
  maxImageTokens,
  maxPageTokens,
  reasonsBesideLimit,
} from '../../../shared/catalog/traits.ts'
import { estimateAbandonedUsage } from '../../../shared/chat/abandoned-usage.ts'
import { bill } from '../../../shared/chat/bill.ts'
import { chatFormatOf } from '../../../shared/chat/chat-formats.ts'
import { deliveredByAnswer } from '../../../shared/chat/delivered-output.ts'
import type { ChatRequest } from '../../../shared/kinds/chat.ts'
import type { MessagesRequest } from '../../../shared/kinds/messages.ts'
import type { Target } from '../../../shared/providers/contract.ts'
import { chatFeatures, type Features } from '../../../shared/routing/features.ts'
import { messagesFeatures } from '../../../shared/routing/messages-features.ts'
import {
  atServedTier,
  chargeNano,
  maxCostOf,
  mayExtendPrompt,
  ownSearches,
  promptTokensBound,
  reasoningExtensionTokens,
  targetOf,
} from '../../../shared/routing/pricing.ts'
import { test } from '../../support/test.ts'

const cases = 100_000
const catalog = loadCatalog()
const targets: Target[] = [...catalog.models.values()]
  .filter(({ type, disabled }) => type === 'chat' && !disabled)
  .flatMap(model => catalog.targets(model).map(offer => ({ model, ...offer })))
  .filter(({ deployment }) => deployment.price.unit === 'token')

/**
 * Why a request may be charged less than its provider's price and margin. Each is counted, and bounded: `estimated` by half of
 * the price, the others by what they name.
 */
type Exception = 'nothing produced' | 'estimated'

const percentile = fc.integer({ min: 0, max: 1_000 }).map(n => n / 1_000)
const request = fc.record({
  kind: fc.constantFrom('chat' as const, 'messages' as const),
  target: fc.nat({ max: targets.length - 1 }),
  words: fc.nat({ max: 12 }),
  images: fc.nat({ max: 3 }),
  soundMs: fc.oneof(fc.constant(0), fc.nat({ max: 60_000 }), fc.constant(null)),
  documents: fc.oneof(
    fc.constant({ pages: 0, textBytes: 0 }),
    fc.record({ pages: fc.nat({ max: 50 }), textBytes: fc.nat({ max: 20_000 }) }),
    fc.constant(null),
  ),
  maxTokens: fc.oneof(fc.constant(null), fc.integer({ min: 1, max: 50_000 })),
  cacheTtl: fc.constantFrom('5m', '1h', undefined),
  choices: fc.oneof({ weight: 4, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.integer({ min: 2, max: 8 }) }),
  marginPpm: fc.constantFrom(0n, 50_000n, 200_000n),
  tier: fc.constantFrom(undefined, ...serviceTiers),
})
/** What the provider does: how much of what it could bill it bills, and of which classes. */
const work = fc.record({
  prompt: percentile,
  output: percentile,
  cached: percentile,
  written: percentile,
  writtenFor1h: percentile,
  stated: percentile,
  /** The tier that its answer states. */
  tier: fc.constantFrom(undefined, 'standard' as const, ...serviceTiers),
})
const departure = fc.oneof(
  { weight: 6, arbitrary: fc.constant('stays' as const) },
  { weight: 2, arbitrary: fc.constant('leaves, and the call is read on' as const) },
  { weight: 2, arbitrary: fc.constant('leaves, and the call is cut' as const) },
)

type Given = {
  target: Target
  kind: 'chat' | 'messages'
  body: ChatRequest | MessagesRequest
  features: Features
  marginPpm: bigint
}

/** Messages have an explicit limit and one choice, and no sound. */
function given({
  kind,
  target: index,
  words,
  maxTokens,
  choices,
  marginPpm,
  images,
  soundMs,
  documents,
  cacheTtl,
  tier,
}: RequestCase): Given {
  const isMessages = kind === 'messages' && maxTokens !== null
  const body = {
    model: targets[index]!.model.id,
    messages: [{ role: 'user', content: 'word '.repeat(words) }],
    cache_control: { type: 'ephemeral', ttl: cacheTtl },
    ...(maxTokens !== null && { max_tokens: maxTokens }),
    ...(!isMessages && { n: choices }),
  }
  const bytes = JSON.stringify(body).length
  const features = isMessages
    ? messagesFeatures(body as MessagesRequest, bytes)
    : { ...chatFeatures(body as ChatRequest, bytes), ...(tier && { tier }) }
  const sound = isMessages ? 0 : soundMs
  features.media = { images, soundMs: sound, earlierSounds: 0, documents }
  features.inputs = { image: images > 0, audio: sound !== 0, file: documents === null || documents.pages > 0 }
  return {
    target: targetOf(targets[index]!, features),
    kind: isMessages ? 'messages' : 'chat',
    body: body as Given['body'],
    features,
    marginPpm,
  }
}

type RequestCase = typeof request extends fc.Arbitrary<infer T> ? T : never
type WorkCase = typeof work extends fc.Arbitrary<infer T> ? T : never

/** A token a byte at the most; usually a token a word, by some vocabularies a third more, and what a chat's template adds. */
const maxText = ({ body }: Given) => Buffer.byteLength(body.messages[0]!.content as string) + 16
const usualText = ({ body }: Given) => Math.ceil((body.messages[0]!.content as string).length / 5) * 1.35 + 8

/** The most tokens a provider can count by its own rules, worked out apart from the product. */
function mostPrompt({ target, features: { media } }: Given, text: number): number {
  const context = Math.max(target.model.context_length!, Number(target.deployment.traits?.context_length ?? 0))
  const per = (count: number, figure: number | null) =>
    count === 0 ? 0 : figure === null ? context : Math.floor(count * figure)
  const sound = media.soundMs === null ? context : per(media.soundMs / 1_000, maxAudioTokensPerSecond(target))
  const pages = media.documents === null ? context : per(media.documents.pages, maxPageTokens(target))
  const read = media.documents && billsDocumentText(target) ? media.documents.textBytes : 0
  const images = per(media.images, maxImageTokens(target))
  return Math.min(Math.floor(text) + sound + pages + read, context) + (images >= context ? 0 : images)
}

function usageOf(it: Given, text: number, outputLimit: number, work: WorkCase): Usage {
  const { prompt, output, cached, written, writtenFor1h } = work
  const prompt_tokens = Math.max(1, Math.floor(mostPrompt(it, text) * prompt))
  const beside = reasonsBesideLimit(it.target) ? reasoningExtensionTokens : 0
  const completion_tokens = Math.floor((outputLimit + beside) * it.features.choices * output)
  const cached_tokens = Math.floor(prompt_tokens * cached)
  const cache_write_tokens = Math.floor((prompt_tokens - cached_tokens) * written)
  const asks1h = it.features.cache1h()
  const cache_write_1h_tokens = asks1h ? Math.floor(cache_write_tokens * writtenFor1h) : 0
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: { cached_tokens, cache_write_tokens, cache_write_1h_tokens },
    ...(work.tier && { service_tier: work.tier }),
  }
}

/**
 * The provider's price with margin in nano-dollars, rounded down: at the tier that was asked for, if the answer states that or
 * none; else at the standard one.
 */
function priceNano({ target, marginPpm }: Given, usage: Usage): number {
  const { price } = target.deployment
  if (price.unit !== 'token') throw new Error('not priced by the token')
  const { service_tier: stated = target.tier } = usage
  const prices = priceAt(price, stated === target.tier ? target.tier : 'standard')
  return Number((tokenCost(prices, usage) * (1_000_000n + marginPpm)) / 1_000_000_000n)
}

test(`charged at least the provider's price and margin, and within the reservation: ${cases} requests, usages and departures`, async t => {
  const exceptions: Record<Exception, number> = { 'nothing produced': 0, estimated: 0 }
  let charged = 0
  const property = fc.asyncProperty(request, work, departure, async (asked, done, leaving) => {
    const it = given(asked)
    const { target, kind, body, features, marginPpm } = it
    const bound = maxCostOf([target], features, marginPpm)
    const reservedNano = bound.fixedNano + Math.ceil((bound.outputTokens * bound.picoPerOutputToken) / 1_000)
    const isCut = leaving === 'leaves, and the call is cut'
    const usage = usageOf(it, isCut ? usualText(it) : maxText(it), bound.outputTokens, done)
    if (isCut) {
      // What the model wrote until then is within what it can write in the time.
      const elapsedMs = Math.ceil((usage.completion_tokens / 100) * 1_000)
      const estimate = await estimateAbandonedUsage({
        format: chatFormatOf(kind),
        body,
        features,
        target,
        elapsedMs,
        tokensPerSecond: null,
        maxOutputTokens: bound.outputTokens * features.choices,
        delivered: deliveredByAnswer([], 0),
        reported: null,
        hidesOutput: true,
        searches: ownSearches(target, features) ?? 0,
      })
      const costNano = chargeNano(target, atServedTier(estimate, target, usage.service_tier), marginPpm)
      if (costNano > reservedNano) throw new Error(`${costNano} estimated, ${reservedNano} reserved`)
      const priced = priceNano(it, usage)
      if (costNano < priced) {
        exceptions.estimated++
        if (costNano * 2 < priced && !reasonsBesideLimit(target)) throw new Error(`${costNano} estimated of ${priced}`)
      }
      charged++
      return
    }
    // Whether its client waits or a call is read on: the provider's own count is billed.
    const message = { role: 'assistant', content: usage.completion_tokens > 0 ? 'x' : '' }
    const answer = { usage, choices: [{ index: 0, message, finish_reason: 'stop' }] }
    const finished = { format: chatFormatOf(kind), body, upstreamId: null, answer, lostImages: 0 }
    const { costNano, waiver } = await bill({ target, marginPpm, free: false }, finished)
    if (costNano > reservedNano) throw new Error(`${costNano} charged, ${reservedNano} reserved`)
    if (costNano < priceNano(it, usage)) {
      if (waiver !== 'nothing_produced' || usage.completion_tokens > 0) throw new Error(`${costNano} charged`)
      exceptions['nothing produced']++
    }
    charged++
  })
  await t.notThrowsAsync(fc.assert(property, { numRuns: cases, includeErrorInReport: true }))
  t.is(charged, cases)
  t.log(exceptions)
  t.true(exceptions['nothing produced'] < cases / 20)
  t.true(exceptions.estimated < cases / 20)
})

test('the bound of a prompt is that of its target: every deployment that reasons, sees, hears or reads has one', t => {
  const body = { model: 'auto', messages: [{ role: 'user', content: 'Hi' }] } as ChatRequest
  for (const target of targets) {
    const features = chatFeatures(body, JSON.stringify(body).length)
    const bound = promptTokensBound(features, target)
    // One that searches reads what it finds.
    t.true(mayExtendPrompt(target, features) ? Number.isSafeInteger(bound) : bound < 1_000, target.model.id)
    features.media = { images: 1_000, soundMs: null, earlierSounds: 1, documents: null }
    t.true(Number.isSafeInteger(promptTokensBound(features, target)), target.model.id)
    t.is(typeof canReason(target.deployment), 'boolean')
  }
})
