import type { Usage } from '../../base/usage.ts'
import { unsupported } from '../../kinds/media.ts'
import type { SoundOutput } from '../../kinds/sound.ts'
import { type InstantAdapter, type InstantCall, ProviderError, type ProviderLine } from '../contract.ts'
import { type JsonEvent, jsonEvents } from '../json-events.ts'
import { withParam } from '../param.ts'
import { bytesIn } from '../sounds.ts'
import { finishReason, isBlocked, usageOf } from './answer.ts'
import { interactionsPath, interactionUsage, soundOfStream } from './interactions.ts'
import { framed, type SoundPiece, sampleFormat, usualRateHz } from './samples.ts'
import { type Generated, readGenerated } from './wire.ts'

/** Sound on its way, and what it used once it is whole. */
type Spoken = { pieces: AsyncIterable<SoundPiece>; usage(): Usage | null }

/**
 * Gemini's voices, streamed: by interactions where the deployment's trait `api` says so, else by `streamGenerateContent`, the
 * way of the models before Gemini 3.8. They have no speed.
 */
export const speech: InstantAdapter<'speech'> = {
  async make(call, line): Promise<SoundOutput> {
    const { input, target } = call
    const format = sampleFormat(call)
    if (input.speed !== 1) throw unsupported(target.model, 'speed', 'takes no `speed` at this provider')
    const speak = target.deployment.traits?.api === 'interactions' ? byInteraction : byGeneration
    const { pieces, usage } = await speak(call, line).catch(error => {
      throw named(error)
    })
    return { sound: { stream: framed(pieces, format) }, usage }
  },
}

/** A refusal that speaks of the voice is about that field. */
function named(error: unknown): unknown {
  const isOfVoice = error instanceof ProviderError && error.reason === 'invalid_request' && /voice/i.test(error.message)
  return isOfVoice ? withParam(error, 'voice') : error
}

/** The text is spoken word for word; how it is spoken goes along as metadata. */
async function byInteraction({ input, target, signal }: InstantCall<'speech'>, line: ProviderLine): Promise<Spoken> {
  const { text, voice, instructions } = input
  const annotations = instructions === null ? undefined : [{ type: 'speech_metadata', style: instructions }]
  const json = {
    model: target.deployment.upstream_model,
    input: [{ type: 'user_input', content: [{ type: 'text', text, ...(annotations && { annotations }) }] }],
    response_format: { type: 'audio', mime_type: 'audio/l16', sample_rate: usualRateHz },
    generation_config: { speech_config: [{ voice }] },
    store: false,
    stream: true,
  }
  const { stream } = await line.stream({ method: 'POST', path: interactionsPath, headers: asEvents, json, signal })
  let usage: Usage | null = null
  const pieces = soundOfStream(stream, interaction => {
    usage = interactionUsage(interaction)
  })
  return { pieces, usage: () => usage }
}

/** These models take no system instruction: what stands before the transcript tells them how to speak. */
async function byGeneration({ input, target, signal }: InstantCall<'speech'>, line: ProviderLine): Promise<Spoken> {
  const { text, voice, instructions } = input
  const prompt = instructions === null ? text : `${instructions}\n\n#### TRANSCRIPT\n${text}`
  const json = {
    contents: [{ role: 'user', parts: [{ text: prompt }] }],
    generationConfig: {
      responseModalities: ['AUDIO'],
      speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: voice } } },
    },
  }
  const path = `/v1beta/models/${target.deployment.upstream_model}:streamGenerateContent?alt=sse`
  const { stream } = await line.stream({ method: 'POST', path, headers: asEvents, json, signal })
  let usage: Usage | null = null
  const pieces = soundOfGeneration(jsonEvents(stream), generated => {
    usage = usageOf(generated.usageMetadata) ?? usage
  })
  return { pieces, usage: () => usage }
}

const asEvents = { accept: 'text/event-stream' }

async function* soundOfGeneration(
  events: AsyncIterable<JsonEvent>,
  counted: (generated: Generated) => void,
): AsyncIterable<SoundPiece> {
  let isOver = false
  for await (const { json } of events) {
    const generated = readGenerated(json)
    if (isBlocked(generated)) throw refused()
    counted(generated)
    const [candidate] = generated.candidates ?? []
    for (const { inlineData } of candidate?.content?.parts ?? [])
      if (inlineData?.data)
        yield {
          bytes: bytesIn(inlineData.data),
          mimeType: inlineData.mimeType,
          rateHz: null,
          channels: null,
        }
    if (candidate?.finishReason === undefined) continue
    if (finishReason(candidate.finishReason, { produced: true, called: false }) === 'content_filter') throw refused()
    // Speech that ends for any other reason was cut off, whatever came of it.
    isOver = candidate.finishReason === 'STOP'
  }
  if (!isOver) throw new ProviderError('truncated', 'The provider’s answer ended before its end.')
}

function refused(): ProviderError {
  return new ProviderError('content_filter', 'Gemini does not speak this text.')
}
