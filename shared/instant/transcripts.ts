import type { Usage } from '../base/usage.ts'
import { noQuantity, type Quantity } from '../kinds/instant.ts'
import {
  optionsOf,
  type Segment,
  type Transcript,
  type TranscriptionInput,
  type TranscriptionOutput,
  type TranscriptPiece,
} from '../kinds/transcription.ts'
import type { TranscriptFormat } from '../kinds/transcription-request.ts'
import { ProviderError } from '../providers/contract.ts'
import { type Delivered, type Delivery, drained } from './delivery.ts'
import { brokenEvent, eventOf, lastEvent } from './events.ts'
import { segmentsOf, srt, vtt } from './subtitles.ts'
import { done } from './work.ts'

type TranscriptDelivery = Delivery<'transcription'>

/**
 * Has sound written down, and answers in the format that was asked for or passes the text on as it comes. A transcript
 * without text costs nothing. Throws a ProviderError as long as the client has seen nothing.
 */
export async function deliverTranscript(delivery: TranscriptDelivery): Promise<Delivered> {
  const output = await done(delivery.work)
  if (delivery.input.stream) return streamed(delivery, output)
  for await (const _ of output.pieces ?? []); // The whole is what is wanted.
  const transcript = output.transcript()
  delivery.began()
  const quantity = quantityOf(delivery, transcript)
  const costNano = delivery.costNano(quantity)
  const { contentType, text } = written(delivery, transcript, quantity, costNano)
  delivery.client.answer({ ...delivery.headers(costNano), 'content-type': contentType }, text)
  return { quantity, error: null }
}

async function streamed(delivery: TranscriptDelivery, output: TranscriptionOutput): Promise<Delivered> {
  const { client, input } = delivery
  const pieces = (output.pieces ?? wholeOf(output.transcript(), input))[Symbol.asyncIterator]()
  // Until the first piece is there, another provider can still take over.
  let piece = await pieces.next()
  delivery.began()
  try {
    let segments = 0
    for (; !piece.done && !client.gone; piece = await pieces.next()) {
      if ('segment' in piece.value) segments++
      const event = 'segment' in piece.value ? diarized(piece.value.segment, segments - 1) : deltaOf(piece.value)
      if (!delivery.send(eventOf(event))) await drained(delivery)
    }
    if (client.gone) {
      await pieces.return?.()
      return { quantity: heard(delivery), error: null }
    }
    const all = output.transcript()
    // Some providers give the text in pieces, and the segments at the end.
    if (segments === 0 && output.pieces && input.speakers)
      for (const [i, segment] of (all.segments ?? []).entries()) delivery.send(eventOf(diarized(segment, i)))
    const quantity = quantityOf(delivery, all)
    const usage = shownUsage(delivery, quantity, delivery.costNano(quantity))
    delivery.send(eventOf({ type: 'transcript.text.done', text: all.text, ...logprobsOf(all), usage }) + lastEvent)
    client.end()
    return { quantity, error: null }
  } catch (error) {
    if (client.gone) return { quantity: heard(delivery), error: null }
    delivery.stopped.throwIfAborted()
    if (!(error instanceof ProviderError)) throw error
    delivery.send(brokenEvent)
    client.end()
    return { quantity: noQuantity, error }
  }
}

async function* wholeOf(
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

/** A segment with its speaker, as OpenAI has it. */
function diarized({ id, start, end, text, speaker }: Segment, position: number) {
  const type = 'transcript.text.segment'
  return { type, id: id ?? `seg_${position}`, start, end, text, speaker: speaker ?? 'unknown' }
}

/** What is billed. Tokens that the provider did not count are estimated from the length and the text. */
function quantityOf(delivery: TranscriptDelivery, { text, usage }: Transcript): Quantity {
  if (text === '' && !usage?.completion_tokens) return noQuantity
  const quantity = heard(delivery)
  if (usage) return { ...quantity, usage }
  const said = Math.ceil(text.length / charactersPerToken)
  const { prompt_tokens } = quantity.usage
  return {
    ...quantity,
    usage: { ...quantity.usage, completion_tokens: said, total_tokens: prompt_tokens + said },
  }
}

const tokensPerSecond = 10
const charactersPerToken = 4

/** The sound alone. */
function heard({ input }: TranscriptDelivery): Quantity {
  const { seconds } = input
  const tokens = Math.ceil(seconds * tokensPerSecond)
  const usage: Usage = {
    prompt_tokens: tokens,
    completion_tokens: 0,
    total_tokens: tokens,
    prompt_tokens_details: { audio_tokens: tokens },
    estimated: true,
  }
  return { ...noQuantity, usage, seconds, options: optionsOf(input) }
}

/** Usage as OpenAI's transcriptions have it: tokens or seconds, as the model is priced. */
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

/** A transcript in the format that was asked for. */
function written(delivery: TranscriptDelivery, transcript: Transcript, quantity: Quantity, costNano: number) {
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
  const segments = segmentsOf(transcript, duration).map(diarized)
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
