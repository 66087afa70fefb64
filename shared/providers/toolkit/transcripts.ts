import { transcribedFormats } from '../../catalog/traits.ts'
import { extensionOf } from '../../io/media/media-type.ts'
import { unsupported } from '../../kinds/media.ts'
import { optionsOf, type TranscriptionInput, type TranscriptionOption } from '../../kinds/transcription.ts'
import type { Source, SyncCall, Target } from '../contract.ts'
import { readOptionalNumber } from './json-fields.ts'

/** Shared by the adapters of transcription. */

/** The file to transcribe, converted if the provider does not list its format. Throws 400 if that is impossible. */
export async function soundOf({ target, sources }: SyncCall<'transcription'>): Promise<Source> {
  const sound = sources.get('audio_url')!
  const formats = transcribedFormats(target)
  if (!formats || formats.includes(extensionOf(sound.contentType))) return sound
  if (sound.toFlac && formats.includes('flac')) return sound.toFlac(target.model)
  const problem = `takes no ${sound.contentType}, but files of these formats: ${formats.join(', ')}`
  throw unsupported(target.model, 'audio_url', problem)
}

const fields: Record<TranscriptionOption, string> = { speakers: 'response_format', keywords: 'keywords' }

/**
 * Asserts that the price row covers every requested transcription option: some cost extra. Throws 400 naming the field.
 */
export function assertPriced({ model, deployment: { price }, provider }: Target, input: TranscriptionInput): void {
  for (const option of optionsOf(input)) {
    const isPriced = price.unit === 'minute' && price.added_by_option?.[option] !== undefined
    if (!isPriced) throw unsupported(model, fields[option], `at ${provider.name} has no price for ${option}`)
  }
}

/**
 * Reads the times of words, or of segments, one after the other. ElevenLabs (elevenlabs-python,
 * speech_to_text_word_response_model.py), Deepgram and servers of Whisper (m-bain/whisperX#559) leave some out: these are
 * where the one before ended.
 */
export class TimeReader {
  #end = 0

  read(json: unknown): { start: number; end: number } {
    const start = readOptionalNumber(json, 'start') ?? this.#end
    this.#end = readOptionalNumber(json, 'end') ?? start
    return { start, end: this.#end }
  }
}

/**
 * Names the speakers of words, or of segments, by the provider's labels: `A`, `B` … in the order of their first
 * appearance. Where a label is missing, the previous speaker goes on, or at the beginning the first that is labelled speaks.
 */
export function speakersOf(labels: readonly (string | null)[]): string[] {
  const names = new Map<string, string>()
  let current = labels.find(label => label !== null) ?? ''
  return labels.map(label => {
    current = label ?? current
    const name = names.get(current) ?? nameAt(names.size)
    names.set(current, name)
    return name
  })
}

/** `A` to `Z`, then `AA`, `AB` … */
function nameAt(position: number): string {
  const letter = String.fromCharCode(65 + (position % 26))
  return position < 26 ? letter : nameAt(Math.floor(position / 26) - 1) + letter
}
