import type { Usage } from '../base/usage.ts'
import { openProviderFile } from '../files/provider-files.ts'
import { type Bytes, bytesOf } from '../io/bytes.ts'
import type { SoundFormat } from '../kinds/sound.ts'
import { charactersOf, type Quantity, zeroQuantity } from '../kinds/sync-kind.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { type Delivery, type DeliveryResult, statedTokens, waitForDrain } from './delivery.ts'
import { failedEvent, formatEvent, lastEvent } from './events.ts'
import { awaitFirstFrame, type StartedSound } from './first-frame.ts'
import { performWork } from './work.ts'

/** Kinds that produce audio. */
export type SoundKind = 'speech' | 'music' | 'sfx'

/**
 * Generates audio and streams it from its first complete frame on. If the provider's stream breaks, so does the
 * client's, and nothing is charged. Throws a ProviderError if nothing was sent to the client yet.
 */
export async function deliverSound<K extends SoundKind>(
  delivery: Delivery<K>,
  asEvents = false,
): Promise<DeliveryResult> {
  const { client } = delivery
  const output = await performWork(delivery.work)
  const { contentType, body } = await openSound(delivery, output.sound)
  delivery.onFirstByte()
  try {
    const sendChunk = asEvents ? createEventSender(delivery) : createFileSender(delivery, contentType)
    for await (const bytes of body) {
      if (!client.gone || client.keeps) {
        if (!sendChunk(bytes)) await waitForDrain(delivery)
      } else if (!isPaidInTokens(delivery)) break // Otherwise only the end tells what the sound costs.
    }
  } catch (error) {
    if (!client.gone) return endBroken(delivery, error, asEvents)
    // The stored part is incomplete and is discarded.
    client.abandon()
  }
  const quantity = quantityOf(delivery, statedTokens(output.usage()))
  if (client.gone && !client.keeps) return { quantity, error: null }
  if (asEvents) delivery.send(lastEvents(delivery, quantity))
  client.end()
  return { quantity, error: null }
}

type Sender = (bytes: Uint8Array) => boolean

/** Sends raw bytes, after a head that includes the cost if it is already known. */
function createFileSender<K extends SoundKind>(delivery: Delivery<K>, contentType: string): Sender {
  const costNano = isPaidInTokens(delivery) ? null : delivery.costNano(quantityOf(delivery, null))
  delivery.client.open({ ...delivery.headers(costNano), 'content-type': contentType })
  return bytes => delivery.client.send(bytes)
}

/** OpenAI's `stream_format: "sse"`. */
function createEventSender<K extends SoundKind>(delivery: Delivery<K>): Sender {
  return bytes =>
    delivery.send(formatEvent({ type: 'speech.audio.delta', audio: Buffer.from(bytes).toString('base64') }))
}

/** The final events, with token counts if the model is paid by the token. */
function lastEvents<K extends SoundKind>(delivery: Delivery<K>, quantity: Quantity): string {
  const { prompt_tokens: input_tokens, completion_tokens: output_tokens, total_tokens } = quantity.usage
  const tokens = isPaidInTokens(delivery) ? { input_tokens, output_tokens, total_tokens } : undefined
  const usage = { ...tokens, cost: delivery.costNano(quantity) / 1e9 }
  return `${formatEvent({ type: 'speech.audio.done', usage })}${lastEvent}`
}

function isPaidInTokens<K extends SoundKind>({ work }: Delivery<K>): boolean {
  return work.call.target.deployment.price.unit === 'token'
}

/** Opens the audio at its first frame. A file behind a URL may have any format. */
async function openSound<K extends SoundKind>(
  { services, work, input }: Delivery<K>,
  sound: { stream: Bytes } | { bytes: Uint8Array } | { url: string },
): Promise<StartedSound> {
  const { format } = input as { format: SoundFormat }
  if ('stream' in sound) return awaitFirstFrame(sound.stream, format)
  if ('bytes' in sound) return awaitFirstFrame(bytesOf(sound.bytes), format)
  const { body } = await openProviderFile(services, work.connection, sound.url, work.call.signal)
  return awaitFirstFrame(body, format === 'pcm' ? format : null)
}

function endBroken<K extends SoundKind>(delivery: Delivery<K>, error: unknown, asEvents: boolean): DeliveryResult {
  const { aborted: isStopped, reason } = delivery.stopped
  if (isStopped) {
    if (!asEvents) delivery.client.abandon()
    throw reason
  }
  if (!(error instanceof ProviderError)) throw error
  if (asEvents) {
    delivery.send(failedEvent(delivery.failureOf(error)))
    delivery.client.end()
  } else if (delivery.client.abandon()) throw error // Nothing was sent yet: another provider can take over.
  return { quantity: zeroQuantity, error }
}

/** At 15 characters and 25 tokens per second. */
const tokensPerCharacter = 25 / 15

/** The billed quantity; unreported tokens are estimated from the text. */
function quantityOf<K extends SoundKind>({ input }: Delivery<K>, counted: Usage | null): Quantity {
  if (!('text' in input)) return { ...zeroQuantity, usage: counted ?? zeroQuantity.usage, pieces: 1 }
  const characters = charactersOf(input.text)
  const spoken = Math.ceil(characters * tokensPerCharacter)
  const prompt = Math.ceil(Buffer.byteLength(input.text + (input.instructions ?? '')) / 4)
  const estimate: Usage = {
    prompt_tokens: prompt,
    completion_tokens: spoken,
    total_tokens: prompt + spoken,
    completion_tokens_details: { audio_tokens: spoken },
    estimated: true,
  }
  return { ...zeroQuantity, usage: counted ?? estimate, pieces: 1, characters }
}
