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
      'A model of type `realtime` or `live_video`. With a client secret that names one, and with an `intent`, it may be left out.',
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

const secretSeconds = { least: 10, most: 300, usual: 60 }
const mostSettingsBytes = 64 * 1024

/** `POST /v1/realtime/client_secrets`, as OpenAI has it. */
export const clientSecretRequest = z
  .strictObject({
    expires_after: z
      .strictObject({
        anchor: z.literal('created_at').default('created_at'),
        seconds: z.int().min(secretSeconds.least).max(secretSeconds.most).default(secretSeconds.usual),
      })
      .prefault({})
      .describe('How long sessions may be opened with the secret. Those that are open by then go on.'),
    session: z
      .looseObject({
        type: z.enum(['realtime', 'transcription']).default('realtime'),
        model: common.model.describe('The one model the secret is good for; without it, any that the key may use.'),
      })
      .refine(session => Buffer.byteLength(JSON.stringify(session)) <= mostSettingsBytes, 'at most 64 kB')
      .prefault({})
      .describe('Settings applied when a session is opened, as `session.update` takes them.'),
  })
  .meta({ id: 'CreateRealtimeClientSecretRequest' })
export type ClientSecretRequest = z.infer<typeof clientSecretRequest>

/** What is reserved for the next stretch of a session: tokens of a talk of some minutes, or a minute. */
const stretch = { inputTokens: 4_000n, outputTokens: 2_000n, ms: 60_000 }
/** Where sound is paid by the token and its length is all that is known. */
const tokensPerSecond = 10
const speckMs = 1e-6

/** The prices that sessions can be paid by. */
export function paysSessions({ unit }: Price): boolean {
  return unit === 'token' || unit === 'minute' || unit === 'second'
}

/** What a use costs at the price of the model that was used, in pico-dollars before margin. */
export function usePico(price: Price, use: { usage: Usage } | { seconds: number }): bigint {
  if ('seconds' in use) return lengthPico(price, use.seconds * 1_000)
  if (price.unit === 'token') return tokenCost(price, use.usage)
  return lengthPico(price, ((use.usage.prompt_tokens_details?.audio_tokens ?? 0) * 1_000) / tokensPerSecond)
}

/** What a length costs at a price that pays sessions, in pico-dollars before margin; in a price by the token, that of as much sound. */
export function lengthPico(price: Price, ms: number): bigint {
  // What a product of fractions is off by is no begun millisecond.
  const wholeMs = Math.ceil(ms - speckMs)
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

/** What is reserved ahead for a session, in nano-dollars with margin. */
export function stretchNano(price: Price, marginPpm: bigint): number {
  return Number(nanoCeilFromPico(withMargin(stretchPico(price), marginPpm)))
}

function stretchPico(price: Price): bigint {
  if (price.unit !== 'token') return lengthPico(price, stretch.ms)
  const { input, output } = maxTokenRates(price, { audioIn: true, imageIn: true, audioOut: true })
  return input * stretch.inputTokens + output * stretch.outputTokens
}

/** Whether the clock is what a session is paid by. */
export function paidByTime({ unit }: Price): boolean {
  return unit === 'minute' || unit === 'second'
}
