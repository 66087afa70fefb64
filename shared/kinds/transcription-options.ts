import { GatewayError } from '../base/errors.ts'
import type { ModelRow } from '../catalog/schema.ts'
import { lengthOf, type References, unsupported } from './media.ts'
import {
  sampleSeconds,
  type TranscriptFormat,
  type TranscriptionRequest,
  type VoiceActivity,
} from './transcription-request.ts'

/** Converts the options of a transcription to one model's input. */

/** The spoken language, or the candidate languages. Throws 400 for several if the model accepts one. */
export function languagesOf(
  { language, languages }: TranscriptionRequest,
  model: ModelRow,
): { language: string | null; languages: readonly string[] } {
  const several = [...new Set(languages?.map(languageTag) ?? [])]
  if (language != null && several.length > 0)
    throw new GatewayError('invalid_request', 'Send either `language` or `languages`.', { param: 'languages' })
  if (several.length < 2)
    return { language: language == null ? (several[0] ?? null) : languageTag(language), languages: [] }
  if (model.kind?.languages !== true)
    throw unsupported(model, 'languages', 'takes one language; without any it detects the language')
  return { language: null, languages: several }
}

/** A language tag in its usual letters: `pt_br` becomes `pt-BR`, `ZH-hans` `zh-Hans`. */
function languageTag(text: string): string {
  const [language = '', ...others] = text.toLowerCase().split(/[-_]/)
  const subtags = others.map(one => {
    if (one.length === 2) return one.toUpperCase()
    return /^[a-z]{4}$/.test(one) ? one[0]!.toUpperCase() + one.slice(1) : one
  })
  return [language, ...subtags].join('-')
}

/** Languages that Unicode and ISO 639-1, or the models, name differently (openai/whisper, whisper/tokenizer.py). */
const modelCodes: Readonly<Record<string, string>> = { fil: 'tl', nb: 'no' }

/**
 * The ISO 639-1 code of a language tag, without its region: `en` of `en-US` and of `eng`. A language that has none keeps its
 * code of three letters, such as `yue`.
 */
export function isoLanguage(tag: string): string {
  const [language = ''] = tag.split('-')
  const known = language.length === 3 ? new Intl.Locale(language).language : language
  return modelCodes[known] ?? known
}

/** Keywords if the model supports them, otherwise appended to the prompt. */
export function keywordsOf(
  body: TranscriptionRequest,
  model: ModelRow,
): { prompt: string | null; keywords: readonly string[] } {
  const prompt = body.prompt || null
  const keywords = [...new Set(body.keywords ?? [])]
  if (keywords.length === 0 || model.kind?.keywords === true) return { prompt, keywords }
  if (model.kind?.keywords === false || model.kind?.prompt === false)
    throw unsupported(model, 'keywords', 'takes no `keywords`')
  return { prompt: [...(prompt === null ? [] : [prompt]), keywords.join(', ')].join('\n'), keywords: [] }
}

/** The names of known speakers. Throws 400 if their samples do not match them or have an invalid length. */
export function knownSpeakersOf(body: TranscriptionRequest, model: ModelRow, references: References | null): string[] {
  const names = body.known_speaker_names ?? []
  const count = body.known_speaker_references?.length ?? 0
  if (names.length === 0 && count === 0) return []
  const param = names.length < count ? 'known_speaker_names' : 'known_speaker_references'
  if (model.kind?.known_speakers !== true) throw unsupported(model, param, `takes no \`${param}\``)
  if (names.length !== count)
    throw new GatewayError('invalid_request', 'Send as many `known_speaker_names` as `known_speaker_references`.', {
      param,
    })
  for (let i = 0; references && i < count; i++) {
    const field = `known_speaker_references.${i}`
    const seconds = lengthOf(references, field)
    if (seconds >= sampleSeconds.min && seconds <= sampleSeconds.max) continue
    const problem = `A sample has ${sampleSeconds.min} to ${sampleSeconds.max} seconds, and this one ${seconds}.`
    throw new GatewayError('invalid_request', problem, { param: field })
  }
  return names
}

/** `auto` is the default of models without the field. */
export function chunkingOf(
  { chunking_strategy }: TranscriptionRequest,
  model: ModelRow,
): 'auto' | VoiceActivity | null {
  if (chunking_strategy == null || model.kind?.chunking === true) return chunking_strategy ?? null
  if (chunking_strategy === 'auto') return null
  throw unsupported(model, 'chunking_strategy', 'takes no settings of voice detection')
}

/** Whether token probabilities are requested. Throws 400 if the model or the format does not support them. */
export function wantsLogprobs({ include }: TranscriptionRequest, model: ModelRow, format: TranscriptFormat): boolean {
  if (!include?.includes('logprobs')) return false
  if (model.kind?.logprobs !== true) throw unsupported(model, 'include', 'gives no `logprobs`')
  if (format !== 'json') throw unsupported(model, 'include', 'gives `logprobs` with `json` only')
  return true
}
