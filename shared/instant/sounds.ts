import type { Usage } from '../base/usage.ts'
import { type Bytes, bytesOf } from '../io/bytes.ts'
import { charactersOf, noQuantity, type Quantity } from '../kinds/instant.ts'
import type { SoundFormat } from '../kinds/sound.ts'
import { openProviderFile } from '../media/results.ts'
import { ProviderError } from '../providers/contract.ts'
import { type Delivered, type Delivery, drained } from './delivery.ts'
import { brokenEvent, eventOf, lastEvent } from './events.ts'
import { type Begun, begun } from './first-frame.ts'
import { done } from './work.ts'

/** Kinds that give sound. */
export type SoundKind = 'speech' | 'music' | 'sfx'

/**
 * Has sound made and passes it on as it comes, from its first whole frame on. Sound that its provider breaks off is broken off
 * for the client, too, and costs nothing. Throws a ProviderError as long as the client has seen nothing.
 */
export async function deliverSound<K extends SoundKind>(delivery: Delivery<K>, asEvents = false): Promise<Delivered> {
  const { client } = delivery
  const output = await done(delivery.work)
  const { contentType, body } = await opened(delivery, output.sound)
  delivery.began()
  try {
    const sending = asEvents ? events(delivery) : file(delivery, contentType)
    for await (const bytes of body) {
      if (client.gone && !client.keeps) break
      if (!sending(bytes)) await drained(delivery)
    }
  } catch (error) {
    if (!client.gone) return brokenOff(delivery, error, asEvents)
    // Nobody has heard what was kept until here, and it is no whole answer.
    client.abandon()
  }
  if (client.gone && !client.keeps) return { quantity: quantityOf(delivery, null), error: null }
  const quantity = quantityOf(delivery, output.usage())
  if (asEvents) delivery.send(lastEvents(delivery, quantity))
  client.end()
  return { quantity, error: null }
}

type Sending = (bytes: Uint8Array) => boolean

/** The bytes as they are, after a head that has the cost where it is known already. */
function file<K extends SoundKind>(delivery: Delivery<K>, contentType: string): Sending {
  const costNano = isPaidInTokens(delivery) ? null : delivery.costNano(quantityOf(delivery, null))
  delivery.client.open({ ...delivery.headers(costNano), 'content-type': contentType })
  return bytes => delivery.client.send(bytes)
}

/** OpenAI's `stream_format: "sse"`. */
function events<K extends SoundKind>(delivery: Delivery<K>): Sending {
  return bytes => delivery.send(eventOf({ type: 'speech.audio.delta', audio: Buffer.from(bytes).toString('base64') }))
}

/** The end of the events, with tokens where they are paid for. */
function lastEvents<K extends SoundKind>(delivery: Delivery<K>, quantity: Quantity): string {
  const { prompt_tokens: input_tokens, completion_tokens: output_tokens, total_tokens } = quantity.usage
  const tokens = isPaidInTokens(delivery) ? { input_tokens, output_tokens, total_tokens } : undefined
  const usage = { ...tokens, cost: delivery.costNano(quantity) / 1e9 }
  return `${eventOf({ type: 'speech.audio.done', usage })}${lastEvent}`
}

function isPaidInTokens<K extends SoundKind>({ work }: Delivery<K>): boolean {
  return work.call.target.deployment.price.unit === 'token'
}

/** The sound from its first frame on. A file behind an address is in whatever format it is. */
async function opened<K extends SoundKind>(
  { services, work, input }: Delivery<K>,
  sound: { stream: Bytes } | { bytes: Uint8Array } | { url: string },
): Promise<Begun> {
  const { format } = input as { format: SoundFormat }
  if ('stream' in sound) return begun(sound.stream, format)
  if ('bytes' in sound) return begun(bytesOf(sound.bytes), format)
  const { body } = await openProviderFile(services, work.line, sound.url, work.call.signal)
  return begun(body, format === 'pcm' ? format : null)
}

function brokenOff<K extends SoundKind>(delivery: Delivery<K>, error: unknown, asEvents: boolean): Delivered {
  const { aborted: isStopped, reason } = delivery.stopped
  if (isStopped) {
    if (!asEvents) delivery.client.abandon()
    throw reason
  }
  if (!(error instanceof ProviderError)) throw error
  if (asEvents) {
    delivery.send(brokenEvent)
    delivery.client.end()
  } else if (delivery.client.abandon()) throw error // Nobody has seen any of it: another provider may begin anew.
  return { quantity: noQuantity, error }
}

/** At fifteen characters a second and 25 tokens a second. */
const tokensPerCharacter = 25 / 15

/** What is billed; tokens that the provider did not count are estimated from the text. */
function quantityOf<K extends SoundKind>({ input }: Delivery<K>, counted: Usage | null): Quantity {
  if (!('text' in input)) return { ...noQuantity, usage: counted ?? noQuantity.usage, pieces: 1 }
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
  return { ...noQuantity, usage: counted ?? estimate, pieces: 1, characters }
}
