import fc from 'fast-check'
import { usdPerUnit } from '../../shared/base/money.ts'
import type { Usage } from '../../shared/base/usage.ts'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { maxTokenRates, publicPricing, type TokenPrice, tokenCost, tokenRates } from '../../shared/catalog/prices.ts'
import type { Price } from '../../shared/catalog/schema.ts'
import { test } from '../support/test.ts'

const catalog = loadCatalog()

function tokenPrice(id: string, provider: string): TokenPrice {
  const price = catalog.models.get(id)?.providers.find(deployment => deployment.provider === provider)?.price
  if (price?.unit !== 'token') throw new Error(`no token price for ${id} at ${provider}`)
  return price
}

test('priced: the Anthropic answer with cache reads and writes costs $0.000515', t => {
  const usage: Usage = {
    prompt_tokens: 1260,
    completion_tokens: 21,
    total_tokens: 1281,
    prompt_tokens_details: { cached_tokens: 1000, cache_write_tokens: 200 },
    completion_tokens_details: { reasoning_tokens: 8 },
  }
  t.is(usdPerUnit(tokenCost(tokenPrice('claude-haiku-4-5', 'anthropic'), usage)), '0.000515')
})

test('priced: cache writes of one hour at Anthropic’s own factor, below and above its long context', t => {
  const cost = (prompt_tokens: number, cache_write_1h_tokens: number) =>
    tokenCost(tokenPrice('claude-sonnet-4-5', 'anthropic'), {
      prompt_tokens,
      completion_tokens: 0,
      total_tokens: prompt_tokens,
      prompt_tokens_details: { cache_write_tokens: prompt_tokens, cache_write_1h_tokens },
    })
  t.is(usdPerUnit(cost(1_000, 1_000)), '0.006')
  t.is(usdPerUnit(cost(1_000, 400)), '0.00465')
  t.is(usdPerUnit(cost(1_000, 0)), '0.00375')
  t.is(usdPerUnit(cost(200_001, 200_001)), '2.400012')
})

test('every price with cache writes of one hour has one in its upper tier, at twice the input price', t => {
  const prices = [...catalog.models.values()].flatMap(({ providers }) => providers.map(({ price }) => price))
  const tiers = prices.flatMap(price =>
    price.unit === 'token' && price.cache_write_1h !== undefined ? [price, price.above ?? []].flat() : [],
  )
  t.true(tiers.length > 10)
  for (const { input, cache_write_1h } of tiers) t.is(Number(cache_write_1h), 2 * Number(input))
})

test('priced: the Gemini answer with thoughts costs $0.0004635', t => {
  const usage: Usage = {
    prompt_tokens: 105,
    completion_tokens: 40,
    total_tokens: 145,
    prompt_tokens_details: { cached_tokens: 40 },
    completion_tokens_details: { reasoning_tokens: 30 },
  }
  t.is(usdPerUnit(tokenCost(tokenPrice('gemini-3.5-flash', 'gemini'), usage)), '0.0004635')
})

test('priced: a realtime answer has each class at its own rate, cached audio included', t => {
  const usage: Usage = {
    prompt_tokens: 1000,
    completion_tokens: 300,
    total_tokens: 1300,
    prompt_tokens_details: { cached_tokens: 400, cached_audio_tokens: 300, audio_tokens: 700, image_tokens: 50 },
    completion_tokens_details: { audio_tokens: 200 },
  }
  // 300 cached audio, 100 cached text, 400 fresh audio, 50 image, 150 text in; 200 audio, 100 text out.
  const micro = 300 * 0.4 + 100 * 0.4 + 400 * 32 + 50 * 5 + 150 * 4 + 200 * 64 + 100 * 24
  t.is(tokenCost(tokenPrice('gpt-realtime-2.1', 'openai'), usage), BigInt(micro) * 1_000_000n)
})

test('priced: the whole call is at the upper rates once the prompt is one token over the bound', t => {
  const price = tokenPrice('gpt-5.6-sol', 'openai')
  const cost = (prompt_tokens: number) =>
    tokenCost(price, { prompt_tokens, completion_tokens: 10, total_tokens: prompt_tokens + 10 })
  t.is(usdPerUnit(cost(272_000)), '1.0882')
  t.is(usdPerUnit(cost(272_001)), '2.176308')
})

const usd = fc.integer({ min: 0, max: 200_000_000 }).map(micro => (micro / 1e6).toFixed(6))
const optional = fc.option(usd, { nil: undefined })
const classes = {
  input: usd,
  output: usd,
  cached_input: optional,
  cache_write: optional,
  cache_write_1h: optional,
  audio_input: optional,
  cached_audio_input: optional,
  audio_output: optional,
  image_input: optional,
  image_output: optional,
}
const flatPrice: fc.Arbitrary<TokenPrice> = fc.record({ unit: fc.constant('token' as const), ...classes })
const count = fc.integer({ min: 0, max: 2_000_000 })
const usageOf = fc.record({
  text: count,
  cached: count,
  cachedAudio: count,
  write: count,
  write1h: count,
  audio: count,
  image: count,
  out: count,
  audioOut: count,
  imageOut: count,
})
type Counts = typeof usageOf extends fc.Arbitrary<infer T> ? T : never

/** A consistent usage report: every class is inside its total. */
function report(c: Counts): Usage {
  const prompt_tokens = c.text + c.cached + c.cachedAudio + c.write + c.write1h + c.audio + c.image
  const completion_tokens = c.out + c.audioOut + c.imageOut
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: {
      cached_tokens: c.cached + c.cachedAudio,
      cached_audio_tokens: c.cachedAudio,
      cache_write_tokens: c.write + c.write1h,
      cache_write_1h_tokens: c.write1h,
      audio_tokens: c.audio + c.cachedAudio,
      image_tokens: c.image,
    },
    completion_tokens_details: { audio_tokens: c.audioOut, image_tokens: c.imageOut },
  }
}

test('priced: every token once, at its class’s rate or its fallback', t => {
  fc.assert(
    fc.property(flatPrice, usageOf, (price, c) => {
      const or = (...usd: (string | undefined)[]) => BigInt(usd.find(text => text !== undefined)!.replace('.', ''))
      const expected =
        BigInt(c.text) * or(price.input) +
        BigInt(c.cached) * or(price.cached_input, price.input) +
        BigInt(c.cachedAudio) * or(price.cached_audio_input, price.audio_input, price.input) +
        BigInt(c.write) * or(price.cache_write, price.input) +
        BigInt(c.write1h) * or(price.cache_write_1h, price.cache_write, price.input) +
        BigInt(c.audio) * or(price.audio_input, price.input) +
        BigInt(c.image) * or(price.image_input, price.input) +
        BigInt(c.out) * or(price.output) +
        BigInt(c.audioOut) * or(price.audio_output, price.output) +
        BigInt(c.imageOut) * or(price.image_output, price.output)
      return tokenCost(price, report(c)) === expected
    }),
  )
  t.pass()
})

test('priced: one more token of any class never costs less, whatever the report’s other figures', t => {
  fc.assert(
    fc.property(
      flatPrice,
      usageOf,
      usageOf,
      fc.constantFrom('text', 'out', 'audioOut', 'imageOut' as const),
      (price, c, other, key) => {
        const details = report(other)
        const cost = (counts: Counts) =>
          tokenCost(price, {
            ...details,
            prompt_tokens: report(counts).prompt_tokens,
            completion_tokens: report(counts).completion_tokens,
          })
        const before = cost(c)
        return before >= 0n && cost({ ...c, [key]: c[key] + 1 }) >= before
      },
    ),
  )
  fc.assert(
    fc.property(
      flatPrice,
      usageOf,
      fc.constantFrom<keyof Counts>(
        'text',
        'cached',
        'cachedAudio',
        'write',
        'write1h',
        'audio',
        'image',
        'out',
        'audioOut',
        'imageOut',
      ),
      (price, c, key) => tokenCost(price, report({ ...c, [key]: c[key] + 1 })) >= tokenCost(price, report(c)),
    ),
  )
  t.pass()
})

test('priced: the tier’s bound is exact for any price', t => {
  fc.assert(
    fc.property(
      flatPrice,
      flatPrice,
      fc.integer({ min: 1, max: 1_000_000 }),
      ({ unit: _, ...upper }, lower, tokens) => {
        const price: TokenPrice = { ...lower, above: { tokens, ...upper } }
        const at = (prompt: number) => tokenRates(price, prompt).input
        return at(tokens) === tokenRates(lower, 0).input && at(tokens + 1) === tokenRates(upper, 0).input
      },
    ),
  )
  t.pass()
})

test('reserved: no usage of the classes in play costs more than the dearest rates', t => {
  const audioAndImages = { audioIn: true, imageIn: true, audioOut: true, imageOut: true }
  const notUsed = { cachedAudio: 0, audio: 0, image: 0, audioOut: 0, imageOut: 0 }
  fc.assert(
    fc.property(flatPrice, flatPrice, usageOf, fc.boolean(), fc.boolean(), (base, lower, c, media, cache1h) => {
      const { unit: _, ...upper } = base
      const price: TokenPrice = { ...lower, above: { tokens: 200_000, ...upper } }
      const usage = report({ ...c, ...(media ? {} : notUsed), ...(cache1h ? {} : { write1h: 0 }) })
      const max = maxTokenRates(
        price,
        { ...(media ? audioAndImages : {}), cache1h: () => cache1h },
        usage.prompt_tokens,
      )
      const ceiling = BigInt(usage.prompt_tokens) * max.input + BigInt(usage.completion_tokens) * max.output
      return tokenCost(price, usage) <= ceiling
    }),
  )
  t.pass()
})

test('reserved: a prompt within the bound is not reserved at the upper rates', t => {
  const price = tokenPrice('gpt-5.6-sol', 'openai')
  t.deepEqual(maxTokenRates(price, {}, 272_000), { input: 5_000_000n, output: 20_000_000n })
  t.deepEqual(maxTokenRates(price), { input: 10_000_000n, output: 30_000_000n })
})

test('listed: public prices are per unit, with margin, as decimal strings', t => {
  t.deepEqual(publicPricing(tokenPrice('claude-haiku-4-5', 'anthropic'), 50_000n), {
    prompt: '0.00000105',
    completion: '0.00000525',
    input_cache_read: '0.000000105',
    input_cache_write: '0.0000013125',
    input_cache_write_1h: '0.0000021',
    web_search: '0.0105',
  })
  const listed = (price: Price) => publicPricing(price, 0n)
  t.deepEqual(listed({ unit: 'character', usd: '15' }), { per_character: '0.000015' })
  t.deepEqual(listed({ unit: 'image', usd: '0.04' }), { per_image: '0.04' })
  t.deepEqual(listed({ unit: 'second', usd: '0.4' }), { per_second: '0.4' })
  t.deepEqual(listed({ unit: 'minute', usd: '0.006' }), { per_minute: '0.006' })
  t.deepEqual(listed({ unit: 'minute', usd: '0.006', min_seconds: 10 }), {
    per_minute: '0.006',
    minimum_per_request: '0.001',
  })
  t.deepEqual(listed({ unit: 'flat', usd: '0.12' }), { per_request: '0.12' })
  t.deepEqual(listed({ unit: 'credit', usd: '0.0009', max_credits: 10 }), { per_credit: '0.0009' })
})
