import OpenAI from 'openai'
import { type Clock, type MonotonicClock, systemClock } from '../../../shared/base/time.ts'
import type { Usage } from '../../../shared/base/usage.ts'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import { startAnthropicEmulator } from '../../emulators/anthropic.ts'
import type { Emulator } from '../../emulators/emulator.ts'
import { startGeminiEmulator } from '../../emulators/gemini.ts'
import { startOpenAiEmulator } from '../../emulators/openai.ts'
import { type Account, eventually, freshStores, type Gateway, startGateway } from '../gateway.ts'
import { spendKinds } from '../wallet/money.ts'

/** A gateway in front of an emulated upstream of each protocol; OpenRouter is a second provider of many models. */
export type World = {
  gateway: Gateway
  openai: Emulator
  anthropic: Emulator
  gemini: Emulator
  openrouter: Emulator
  sdk(key: string): OpenAI
  close(): Promise<void>
}

/** What no client may ever see. */
export const upstreamSecret = 'upstream-secret-0123456789'

export async function startWorld(
  env: Record<string, string> = {},
  clock: Clock = systemClock,
  monotonic?: MonotonicClock,
): Promise<World> {
  const stores = await freshStores()
  const emulators = await Promise.all([
    startOpenAiEmulator(),
    startAnthropicEmulator(0, () => clock.now()),
    startGeminiEmulator(),
    startOpenAiEmulator(),
  ])
  const [openai, anthropic, gemini, openrouter] = emulators
  const settings = {
    OPENAI_API_KEY: upstreamSecret,
    OPENAI_BASE_URL: `${openai.url}/v1`,
    ANTHROPIC_API_KEY: upstreamSecret,
    ANTHROPIC_BASE_URL: anthropic.url,
    GEMINI_API_KEY: upstreamSecret,
    GEMINI_BASE_URL: gemini.url,
    OPENROUTER_API_KEY: upstreamSecret,
    OPENROUTER_BASE_URL: `${openrouter.url}/v1`,
    ...env,
  }
  const gateway = await startGateway(stores, settings, clock, monotonic)
  return {
    gateway,
    openai,
    anthropic,
    gemini,
    openrouter,
    sdk: key => new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 }),
    async close() {
      await gateway.close()
      await Promise.all(emulators.map(emulator => emulator.close()))
      await stores.drop()
    },
  }
}

const catalog = loadCatalog()

/**
 * What a call must cost, computed apart from the product: each class of tokens times its price per million plus the
 * margin, in whole nano-dollars.
 */
export function expectedNano(model: string, usage: Usage, { provider = '', percent = 5 } = {}): number {
  const deployments = catalog.find(model)!.providers
  const { price } = deployments.find(one => one.provider === provider) ?? deployments[0]!
  if (price.unit !== 'token') throw new Error(`${model} is not priced by the token`)
  const input = usage.prompt_tokens_details ?? {}
  const output = usage.completion_tokens_details ?? {}
  const classes: [tokens: number, usdPerMillion: string][] = [
    [input.cached_tokens ?? 0, price.cached_input ?? price.input],
    [input.audio_tokens ?? 0, price.audio_input ?? price.input],
    [output.image_tokens ?? 0, price.image_output ?? price.output],
    [output.audio_tokens ?? 0, price.audio_output ?? price.output],
    [usage.prompt_tokens - (input.cached_tokens ?? 0) - (input.audio_tokens ?? 0), price.input],
    [usage.completion_tokens - (output.image_tokens ?? 0) - (output.audio_tokens ?? 0), price.output],
  ]
  // USD per million tokens are micro-dollars, so thousands of nano-dollars, per token.
  const nano = classes.reduce((sum, [tokens, usd]) => sum + tokens * Number(usd) * 1_000, 0)
  return Math.round(Number((nano * (1 + percent / 100)).toFixed(4)))
}

/** One line of the request log, once it is booked. */
export async function generationOf({ gateway }: World, id: string) {
  const { db } = gateway.services
  await eventually(async () => (await db.generation.count({ where: { id } })) === 1, `generation ${id} is booked`)
  return db.generation.findFirstOrThrow({ where: { id } })
}

/** The total charges of an organisation, once nothing is in flight; throws when a money invariant is broken. */
export async function chargedNano({ gateway }: Pick<World, 'gateway'>, { organisationId }: Account): Promise<number> {
  const breaches = await gateway.settled()
  if (breaches.length > 0) throw new Error(breaches.join('\n'))
  const view = await gateway.services.wallets.view(organisationId)
  if (view.reservedNano !== 0n) throw new Error(`${view.reservedNano} nano-dollars are still reserved`)
  const where = { organisationId, kind: { in: [...spendKinds] } }
  const { _sum } = await gateway.services.db.ledgerEntry.aggregate({ where, _sum: { amountNano: true } })
  return 0 - Number(_sum.amountNano ?? 0n)
}

/** The `data:` payloads of a text of server-sent events; `[DONE]` stays a text. */
// biome-ignore lint/suspicious/noExplicitAny: chunks of every shape
export function dataOf(text: string): any[] {
  const lines = text.split(/\r?\n/).filter(line => line.startsWith('data:'))
  const payloads = lines.map(line => line.slice('data:'.length).trim())
  return payloads.map(data => (data === '[DONE]' ? data : JSON.parse(data)))
}

/** A chat body with one user message. */
export function saying(model: string, content: unknown = 'Hello gateway', more: object = {}) {
  return { model, messages: [{ role: 'user', content }], ...more }
}
