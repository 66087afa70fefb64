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

/** How sound is wrapped on its way to the client. */
type Wrapping = {
  contentType: string | null
  part(bytes: Uint8Array): string | Uint8Array
  end(quantity: Quantity, costNano: number): string | null
}

/**
 * Has sound made and passes it on as it comes, from its first whole frame on. Sound that its provider breaks off is broken off
 * for the client, too, and costs nothing. Throws a ProviderError as long as the client has seen nothing.
 */
export async function deliverSound<K extends SoundKind>(delivery: Delivery<K>, asEvents = false): Promise<Delivered> {
  const { client, costNano } = delivery
  const output = await done(delivery.work)
  const { contentType, body } = await opened(delivery, output.sound)
  const inTokens = delivery.work.call.target.deployment.price.unit === 'token'
  const wrapping = asEvents ? events(inTokens) : file(contentType)
  delivery.began()
  const headers = delivery.headers(inTokens ? null : costNano(quantityOf(delivery, null)))
  client.open(wrapping.contentType ? { ...headers, 'content-type': wrapping.contentType } : headers)
  try {
    for await (const bytes of body) {
      if (client.gone) break
      const part = wrapping.part(bytes)
      const more = typeof part === 'string' ? client.write(part, 'latin1') : client.send(part)
      if (!more) await drained(delivery)
    }
  } catch (error) {
    if (!client.gone) return brokenOff(delivery, error, asEvents)
  }
  const quantity = quantityOf(delivery, client.gone ? null : output.usage())
  const last = wrapping.end(quantity, costNano(quantity))
  if (last !== null) client.write(last, 'utf8')
  client.end()
  return { quantity, error: null }
}

/** The sound from its first frame on. A file behind an address is in whatever format it is. */
async function opened<K extends SoundKind>(
  { services, work, input }: Delivery<K>,
  sound: { stream: Bytes } | { bytes: Uint8Array } | { url: string },
): Promise<Begun> {
  const { format } = input as { format: SoundFormat }
  if ('stream' in sound) return begun(sound.stream, format)
  if ('bytes' in sound) return begun(bytesOf(sound.bytes), format)
  const { body } = await openProviderFile(services, work.line, sound.url)
  return begun(body, format === 'pcm' ? format : null)
}

function brokenOff<K extends SoundKind>({ client }: Delivery<K>, error: unknown, asEvents: boolean): Delivered {
  if (!(error instanceof ProviderError)) throw error
  if (asEvents) {
    client.write(brokenEvent, 'utf8')
    client.end()
  } else if (client.abandon()) throw error // Nobody has seen any of it: another provider may begin anew.
  return { quantity: noQuantity, error }
}

function file(contentType: string): Wrapping {
  return { contentType, part: bytes => bytes, end: () => null }
}

/** OpenAI's `stream_format: "sse"`; tokens only where they are paid for. */
function events(inTokens: boolean): Wrapping {
  return {
    contentType: null,
    part: bytes => eventOf({ type: 'speech.audio.delta', audio: Buffer.from(bytes).toString('base64') }),
    end(quantity, costNano) {
      const { prompt_tokens: input_tokens, completion_tokens: output_tokens, total_tokens } = quantity.usage
      const usage = { ...(inTokens && { input_tokens, output_tokens, total_tokens }), cost: costNano / 1e9 }
      return `${eventOf({ type: 'speech.audio.done', usage })}${lastEvent}`
    },
  }
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
