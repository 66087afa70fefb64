import { z } from 'zod'
import { nanoCeilFromPico, withMargin } from '../base/money.ts'
import type { Usage } from '../base/usage.ts'
import { lengthCost, maxTokenRates, tokenCost, tokenRates } from '../catalog/prices.ts'
import type { Price } from '../catalog/schema.ts'
import { common } from './media.ts'

/** The query of `WS /v1/realtime`. */
export const realtimeQuery = z.strictObject({
  model: z
    .string()
    .min(1)
    .max(100)
    .describe(
      'A model of type `realtime` or `live_video`. With a client secret that names one, and with an `intent`, it may be left out. With an `intent` it may also be a model of type `transcription`; any of the others opens the session then, and the settings name what transcribes.',
    )
    .optional(),
  intent: z
    .literal('transcription')
    .optional()
    .describe(
      'Opens a session that only writes down what is said. It is paid at the price of the model that its settings name for that.',
    ),
})
export type RealtimeQuery = z.infer<typeof realtimeQuery>

/** OpenAI's (`ClientSecretExpiration` of https://github.com/openai/openai-openapi). */
const secretSeconds = { min: 10, max: 7_200, usual: 600 }
const maxSettingsBytes = 64 * 1024

/** `POST /v1/realtime/client_secrets`, in OpenAI's shape. */
export const clientSecretRequest = z
  .strictObject({
    expires_after: z
      .strictObject({
        anchor: z.literal('created_at').default('created_at'),
        seconds: z.int().min(secretSeconds.min).max(secretSeconds.max).default(secretSeconds.usual),
      })
      .prefault({})
      .describe('How long sessions may be opened with the secret. Those that are open by then go on.'),
    session: z
      .looseObject({
        type: z.enum(['realtime', 'transcription']).default('realtime'),
        model: common.model.describe('The one model the secret is good for; without it, any that the key may use.'),
      })
      .refine(
        session => Buffer.byteLength(JSON.stringify(session)) <= maxSettingsBytes,
        'must be at most 64 kB of JSON',
      )
      .prefault({})
      .describe('Settings applied when a session is opened, as `session.update` takes them.'),
  })
  .meta({ id: 'CreateRealtimeClientSecretRequest' })
export type ClientSecretRequest = z.infer<typeof clientSecretRequest>

/** The reservation for the next interval of a session: tokens of a few minutes of conversation, or one minute. */
const reservedInterval = { inputTokens: 4_000n, outputTokens: 2_000n, ms: 60_000 }
/** Used if audio is priced per token and only its length is known. */
const tokensPerSecond = 10
const roundingToleranceMs = 1e-6

/** Whether sessions can be billed at this price: they are billed part by part, which no minimum fits. */
export function canPriceSession(price: Price): boolean {
  if (price.unit === 'minute') return price.min_seconds === undefined
  return price.unit === 'token' || price.unit === 'second'
}

/** The cost of a usage at the price of the model used, in pico-dollars before margin. */
export function usageCostPico(price: Price, use: { usage: Usage } | { seconds: number }): bigint {
  if ('seconds' in use) return durationCostPico(price, use.seconds * 1_000)
  if (price.unit === 'token') return tokenCost(price, use.usage)
  return durationCostPico(price, ((use.usage.prompt_tokens_details?.audio_tokens ?? 0) * 1_000) / tokensPerSecond)
}

/**
 * The cost of a duration at a session price, in pico-dollars before margin; for a price per token, that of audio of
 * this length.
 */
export function durationCostPico(price: Price, ms: number): bigint {
  // A floating-point error must not count as a started millisecond.
  const wholeMs = Math.ceil(ms - roundingToleranceMs)
  switch (price.unit) {
    case 'second':
    case 'minute':
      return lengthCost(price, BigInt(wholeMs))
    case 'token':
      return tokenRates(price, 0).audioInput * BigInt(Math.ceil((wholeMs * tokensPerSecond) / 1_000))
    default:
      throw new Error(`a session cannot be paid by the ${price.unit}`)
  }
}

/** The amount reserved ahead for a session, in nano-dollars with margin. */
export function intervalHoldNano(price: Price, marginPpm: bigint): number {
  return Number(nanoCeilFromPico(withMargin(intervalHoldPico(price), marginPpm)))
}

function intervalHoldPico(price: Price): bigint {
  if (price.unit !== 'token') return durationCostPico(price, reservedInterval.ms)
  const { input, output } = maxTokenRates(price, { audioIn: true, imageIn: true, audioOut: true })
  return input * reservedInterval.inputTokens + output * reservedInterval.outputTokens
}

/** Whether a session is billed by time. */
export function isPricedByTime({ unit }: Price): boolean {
  return unit === 'minute' || unit === 'second'
}
