import type { Usage } from '../../../base/usage.ts'
import { unsupported } from '../../../kinds/media.ts'
import type { SoundOutput } from '../../../kinds/sound.ts'
import type { ProviderConnection, SyncAdapter, SyncCall } from '../../contract.ts'
import { ProviderError } from '../../provider-error.ts'
import { decodeAudio } from '../../toolkit/audio-bytes.ts'
import { withParam } from '../../toolkit/error-param.ts'
import { type JsonEvent, jsonEvents } from '../../toolkit/json-events.ts'
import { finishReason, isBlocked, usageOf } from './answer.ts'
import { interactionsPath, interactionUsage, soundOfStream } from './interactions.ts'
import { encodeSamples, type SoundPiece, sampleFormat, usualRateHz } from './samples.ts'
import { type Generated, readGenerated } from './wire.ts'

/** Streamed audio, and its usage once complete. */
type StreamedSpeech = { pieces: AsyncIterable<SoundPiece>; usage(): Usage | null }
type MakeSpeech = (call: SyncCall<'speech'>, connection: ProviderConnection) => Promise<StreamedSpeech>

/**
 * Gemini's voices, streamed: by interactions where the deployment's trait `api` says so, otherwise by
 * `streamGenerateContent`, as models before Gemini 3.8 require. They have no speed.
 */
export const speech = speechAdapter((call, connection) => {
  const makeSpeech = call.target.deployment.traits?.api === 'interactions' ? byInteraction : byEarlierGeneration
  return makeSpeech(call, connection)
})

/** Gemini's voices by one of its APIs. */
export function speechAdapter(makeSpeech: MakeSpeech): SyncAdapter<'speech'> {
  return {
    async make(call, connection): Promise<SoundOutput> {
      const { input, target } = call
      const format = sampleFormat(call)
      if (input.speed !== 1) throw unsupported(target.model, 'speed', 'takes no `speed` at this provider')
      const { pieces, usage } = await makeSpeech(call, connection).catch(error => {
        throw assignVoiceParam(error)
      })
      return { sound: { stream: encodeSamples(pieces, format) }, usage }
    },
  }
}

/** Assigns a refusal that mentions the voice to that field. */
function assignVoiceParam(error: unknown): unknown {
  const isOfVoice = error instanceof ProviderError && error.reason === 'invalid_request' && /voice/i.test(error.message)
  return isOfVoice ? withParam(error, 'voice') : error
}

/** The text is spoken verbatim; the style instructions are metadata. */
async function byInteraction(
  { input, target, signal }: SyncCall<'speech'>,
  connection: ProviderConnection,
): Promise<StreamedSpeech> {
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
  const { stream } = await connection.stream({
    method: 'POST',
    path: interactionsPath,
    headers: eventStreamHeaders,
    json,
    signal,
  })
  let usage: Usage | null = null
  const pieces = soundOfStream(stream, interaction => {
    usage = interactionUsage(interaction)
  })
  return { pieces, usage: () => usage }
}

/** These models take no system instruction: text before the transcript is the style instruction. */
function byEarlierGeneration(call: SyncCall<'speech'>, connection: ProviderConnection): Promise<StreamedSpeech> {
  const { text, instructions } = call.input
  return byGeneration(call, connection, {
    text: instructions === null ? text : `${instructions}\n\n#### TRANSCRIPT\n${text}`,
  })
}

/** Speech by `streamGenerateContent`. */
export async function byGeneration(
  { input, target, signal }: SyncCall<'speech'>,
  connection: ProviderConnection,
  part: object,
): Promise<StreamedSpeech> {
  const json = {
    contents: [{ role: 'user', parts: [part] }],
    generationConfig: {
      responseModalities: ['AUDIO'],
      speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: input.voice } } },
    },
  }
  const path = `/v1beta/models/${target.deployment.upstream_model}:streamGenerateContent?alt=sse`
  const { stream } = await connection.stream({ method: 'POST', path, headers: eventStreamHeaders, json, signal })
  let usage: Usage | null = null
  const pieces = soundOfGeneration(jsonEvents(stream), generated => {
    usage = usageOf(generated.usageMetadata) ?? usage
  })
  return { pieces, usage: () => usage }
}

const eventStreamHeaders = { accept: 'text/event-stream' }

async function* soundOfGeneration(
  events: AsyncIterable<JsonEvent>,
  onUsage: (generated: Generated) => void,
): AsyncIterable<SoundPiece> {
  let isOver = false
  for await (const { json } of events) {
    const generated = readGenerated(json)
    if (isBlocked(generated)) throw speechRefusal()
    onUsage(generated)
    const [candidate] = generated.candidates ?? []
    for (const { inlineData } of candidate?.content?.parts ?? [])
      if (inlineData?.data)
        yield {
          bytes: decodeAudio(inlineData.data),
          mimeType: inlineData.mimeType,
          rateHz: null,
          channels: null,
        }
    if (candidate?.finishReason === undefined) continue
    if (finishReason(candidate.finishReason, { produced: true, called: false }) === 'content_filter')
      throw speechRefusal()
    // Speech with any other finish reason was truncated.
    isOver = candidate.finishReason === 'STOP'
  }
  if (!isOver) throw new ProviderError('truncated', 'The provider’s answer ended before its end.')
}

function speechRefusal(): ProviderError {
  return new ProviderError('content_filter', 'Gemini does not speak this text.')
}
