import type { Usage } from '../base/usage.ts'
import { type Quantity, zeroQuantity } from '../kinds/sync-kind.ts'
import {
  optionsOf,
  type Segment,
  type Transcript,
  type TranscriptionInput,
  type TranscriptionOutput,
  type TranscriptPiece,
} from '../kinds/transcription.ts'
import type { TranscriptFormat } from '../kinds/transcription-request.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { type Delivery, type DeliveryResult, statedTokens, waitForDrain } from './delivery.ts'
import { failedEvent, formatEvent, lastEvent } from './events.ts'
import { segmentsOf, srt, vtt } from './subtitles.ts'
import { performWork } from './work.ts'

type TranscriptDelivery = Delivery<'transcription'>

/**
 * Transcribes audio and answers in the requested format, or streams the text as it arrives. A transcript without text
 * is not charged. Throws a ProviderError if nothing was sent to the client yet.
 */
export async function deliverTranscript(delivery: TranscriptDelivery): Promise<DeliveryResult> {
  const output = await performWork(delivery.work)
  if (delivery.input.stream) return streamTranscript(delivery, output)
  for await (const _ of output.pieces ?? []); // Only the complete transcript is needed.
  const transcript = output.transcript()
  delivery.onFirstByte()
  const quantity = quantityOf(delivery, transcript)
  const costNano = delivery.costNano(quantity)
  const { contentType, text } = formatTranscript(delivery, transcript, quantity, costNano)
  delivery.client.answer({ ...delivery.headers(costNano), 'content-type': contentType }, text)
  return { quantity, error: null }
}

async function streamTranscript(delivery: TranscriptDelivery, output: TranscriptionOutput): Promise<DeliveryResult> {
  const { client, input } = delivery
  const pieces = (output.pieces ?? readWhole(output.transcript(), input))[Symbol.asyncIterator]()
  // Before the first piece, another provider can still take over.
  let piece = await pieces.next()
  delivery.onFirstByte()
  let text = ''
  try {
    let segments = 0
    for (; !piece.done; piece = await pieces.next()) {
      if ('segment' in piece.value) segments++
      else text += piece.value.text
      // It is read on for what it costs.
      if (client.gone) continue
      const event = 'segment' in piece.value ? segmentEvent(piece.value.segment, segments - 1) : deltaOf(piece.value)
      if (!delivery.send(formatEvent(event))) await waitForDrain(delivery)
    }
    const transcript = output.transcript()
    if (client.gone) return { quantity: quantityOf(delivery, transcript), error: null }
    // Some providers stream the text and send the segments at the end.
    if (segments === 0 && output.pieces && input.speakers)
      for (const [i, segment] of (transcript.segments ?? []).entries())
        delivery.send(formatEvent(segmentEvent(segment, i)))
    const quantity = quantityOf(delivery, transcript)
    const usage = shownUsage(delivery, quantity, delivery.costNano(quantity))
    delivery.send(
      formatEvent({ type: 'transcript.text.done', text: transcript.text, ...logprobsOf(transcript), usage }) +
        lastEvent,
    )
    client.end()
    return { quantity, error: null }
  } catch (error) {
    if (client.gone) return { quantity: countedQuantity(delivery, text), error: null }
    delivery.stopped.throwIfAborted()
    if (!(error instanceof ProviderError)) throw error
    delivery.send(failedEvent(delivery.failureOf(error)))
    client.end()
    return { quantity: zeroQuantity, error }
  }
}

async function* readWhole(
  { text, segments, logprobs }: Transcript,
  { speakers }: TranscriptionInput,
): AsyncIterable<TranscriptPiece> {
  if (text !== '') yield { text, segmentId: null, logprobs }
  for (const segment of speakers ? (segments ?? []) : []) yield { segment }
}

function deltaOf({ text, segmentId, logprobs }: Exclude<TranscriptPiece, { segment: Segment }>) {
  return {
    type: 'transcript.text.delta',
    delta: text,
    ...logprobsOf({ logprobs }),
    ...(segmentId !== null && { segment_id: segmentId }),
  }
}

function logprobsOf({ logprobs }: Pick<Transcript, 'logprobs'>) {
  return logprobs === null ? {} : { logprobs }
}

/** A segment event with its speaker, in OpenAI's format. */
function segmentEvent({ id, start, end, text, speaker }: Segment, position: number) {
  const type = 'transcript.text.segment'
  return { type, id: id ?? `seg_${position}`, start, end, text, speaker: speaker ?? 'unknown' }
}

/** The billed quantity. Unreported tokens are estimated from the duration and the text. */
function quantityOf(delivery: TranscriptDelivery, { text, usage: stated }: Transcript): Quantity {
  const usage = statedTokens(stated)
  if (text.trim() === '' && !usage?.completion_tokens) return zeroQuantity
  return usage ? { ...audioQuantity(delivery), usage } : countedQuantity(delivery, text)
}

/** The quantity of the input audio and of a text that was written. */
function countedQuantity(delivery: TranscriptDelivery, text: string): Quantity {
  const quantity = audioQuantity(delivery)
  const textTokens = Math.ceil(text.length / charactersPerToken)
  const { prompt_tokens } = quantity.usage
  return {
    ...quantity,
    usage: { ...quantity.usage, completion_tokens: textTokens, total_tokens: prompt_tokens + textTokens },
  }
}

const tokensPerSecond = 10
const charactersPerToken = 4

/** The quantity of the input audio alone. */
function audioQuantity({ input }: TranscriptDelivery): Quantity {
  const { seconds } = input
  const tokens = Math.ceil(seconds * tokensPerSecond)
  const usage: Usage = {
    prompt_tokens: tokens,
    completion_tokens: 0,
    total_tokens: tokens,
    prompt_tokens_details: { audio_tokens: tokens },
    estimated: true,
  }
  return { ...zeroQuantity, usage, seconds, options: optionsOf(input) }
}

/** Usage in the format of OpenAI's transcriptions: tokens or seconds, depending on the model's price. */
function shownUsage({ work }: TranscriptDelivery, { usage, seconds }: Quantity, costNano: number) {
  const cost = costNano / 1e9
  if (work.call.target.deployment.price.unit !== 'token') return { type: 'duration', seconds, cost }
  const audio = usage.prompt_tokens_details?.audio_tokens ?? 0
  return {
    type: 'tokens',
    input_tokens: usage.prompt_tokens,
    input_token_details: { text_tokens: usage.prompt_tokens - audio, audio_tokens: audio },
    output_tokens: usage.completion_tokens,
    total_tokens: usage.total_tokens,
    ...(usage.estimated && { estimated: true }),
    cost,
  }
}

/** Formats a transcript as requested. */
function formatTranscript(delivery: TranscriptDelivery, transcript: Transcript, quantity: Quantity, costNano: number) {
  const { seconds } = delivery.input
  const usage = shownUsage(delivery, quantity, costNano)
  const json = 'application/json; charset=utf-8'
  const plain = 'text/plain; charset=utf-8'
  const inFormat: Record<TranscriptFormat, () => { contentType: string; text: string }> = {
    json: () => ({
      contentType: json,
      text: JSON.stringify({ text: transcript.text, ...logprobsOf(transcript), usage }),
    }),
    diarized_json: () => ({ contentType: json, text: JSON.stringify({ ...withSpeakers(transcript, seconds), usage }) }),
    verbose_json: () => ({ contentType: json, text: JSON.stringify({ ...verbose(delivery, transcript), usage }) }),
    text: () => ({ contentType: plain, text: `${transcript.text}\n` }),
    srt: () => ({ contentType: plain, text: srt(segmentsOf(transcript, seconds)) }),
    vtt: () => ({ contentType: plain, text: vtt(segmentsOf(transcript, seconds)) }),
  }
  return inFormat[delivery.input.format]()
}

function withSpeakers(transcript: Transcript, duration: number) {
  const segments = segmentsOf(transcript, duration).map(segmentEvent)
  return { task: 'transcribe', duration, text: transcript.text, segments }
}

function verbose({ input }: TranscriptDelivery, transcript: Transcript) {
  const { text, language, words } = transcript
  return {
    task: input.translate ? 'translate' : 'transcribe',
    language: language ?? input.language ?? 'unknown',
    duration: input.seconds,
    text,
    ...(input.segments && {
      segments: segmentsOf(transcript, input.seconds).map(({ speaker, details, id: _id, ...times }, id) => ({
        id,
        ...details,
        ...times,
        ...(speaker !== null && { speaker }),
      })),
    }),
    ...(input.words && { words: words ?? [] }),
  }
}
