import { imageFormats } from '../../../shared/kinds/image.ts'
import { syncKinds } from '../../../shared/kinds/index.ts'
import { charactersOf } from '../../../shared/kinds/sync-kind.ts'
import { countTokens, tokenCounts } from '../../emulators/gemini.ts'
import { tokensPerSecond } from '../../emulators/gemini-interactions.ts'
import { caption, painters } from '../../emulators/gemini-media.ts'
import { tokensIn } from '../../emulators/openai.ts'
import { heardText, speechTokens, transcriptTokens } from '../../emulators/openai-audio.ts'
import * as openai from '../../emulators/openai-images.ts'
import * as openrouter from '../../emulators/openrouter-images.ts'
import { dataUri } from '../jobs/gateway.ts'
import type { Offer } from './offers.ts'
import { png } from './png.ts'
import type { Used } from './price.ts'
import { wav } from './sounds.ts'

/** What is asked of every model that makes images or sound, made from its row. */

export type Case = {
  what: string
  path: string
  body: object
  /** Of sound that is sent in a form. */
  file?: Buffer
  /** By what its requests at the provider are known. */
  mark: Buffer
  /** The requests that have something made. */
  made: number
  used: Used
  format: string | null
  images: number
  /** Width by height, where it was asked for. */
  ratio: number | null
  references: Buffer[]
}

let cases = 0
/** A text that no other case has. */
const textOf = (what: string) => `${what}, case ${++cases} of all.`
const list = (value: unknown) => (Array.isArray(value) ? (value as string[]) : [])

export const casesOf = (offer: Offer): Case[] => makers[offer.kind](offer)

const makers: Record<Offer['kind'], (offer: Offer) => Case[]> = {
  image: imageCases,
  speech: speechCases,
  transcription: transcriptCases,
  music: soundCases,
  sfx: soundCases,
}

function base({ kind, row }: Offer, what: string, body: object, text: string): Case {
  const rest = { made: 1, used: { pieces: 1 }, format: null, images: 0, ratio: null, references: [] }
  return { what, path: syncKinds[kind].path, body: { model: row.id, ...body }, mark: Buffer.from(text), ...rest }
}

const ratioOf = (shape: string) => {
  const [width, height] = shape.split(/[x:]/).map(Number)
  return width! / height!
}

function imageCases(offer: Offer): Case[] {
  const { row, deployment } = offer
  const { max_n, max_references, references_required, sizes, aspect_ratios, resolutions, qualities } = row.kind ?? {}
  const takesImages = row.input_modalities.includes('image')
  const min = references_required ? 1 : 0
  const of = (what: string, more: object = {}, references = min, n = 1) => {
    const prompt = textOf('A fox in the snow')
    const pictures = Array.from({ length: references }, (_, i) => png(8 + cases + i))
    const shown = references > 0 && { input_references: pictures.map(bytes => dataUri('image/png', bytes)) }
    const made = base(offer, what, { prompt, n, ...shown, ...more }, prompt)
    const used = { pieces: n, ...tokensOfImages(offer, prompt, references, n) }
    return { ...made, used, images: n, references: pictures, made: Math.ceil(n / maxAtOnce(offer)) }
  }
  const shaped = (field: string, shapes: unknown) =>
    list(shapes)
      .slice(-1)
      .map(shape => ({ ...of(`of ${field} ${shape}`, { [field]: shape }), ratio: ratioOf(shape) }))
  const tiers = list(resolutions).filter(tier => tier === '1K')
  return [
    of('as it mostly is'),
    ...(max_n === 1 ? [] : [of('two', {}, min, 2)]),
    ...formatsOf(offer).map(format => ({ ...of(`as ${format}`, { output_format: format }), format })),
    ...[1, 3].filter(n => takesImages && n > min && n <= Number(max_references ?? 16)).map(n => of(`from ${n}`, {}, n)),
    ...shaped('size', sizes),
    ...shaped('aspect_ratio', deployment.traits?.size_field ? ['16:9'] : aspect_ratios),
    ...tiers.map(tier => of(`at ${tier}`, { resolution: tier })),
    ...list(qualities)
      .slice(-1)
      .map(quality => of(`of quality ${quality}`, { quality })),
  ]
}

/** The kinds of files that can be asked for. */
function formatsOf({ deployment: { provider, traits } }: Offer): string[] {
  if (provider === 'openai' || provider === 'openrouter') return [...imageFormats]
  return traits?.format_field ? traits.formats! : []
}

function maxAtOnce({ deployment: { provider, traits } }: Offer): number {
  if (provider === 'openai' || provider === 'openrouter') return 10
  return traits?.n_field ? 4 : 1
}

function tokensOfImages(
  { deployment: { provider, upstream_model } }: Offer,
  prompt: string,
  references: number,
  n: number,
): Used {
  const input = tokensIn(prompt)
  if (provider === 'openai')
    return { input, imageInput: references * openai.tokensPerReference, imageOutput: n * openai.tokensPerImage }
  if (provider === 'openrouter') return { input, imageOutput: n * openrouter.tokensPerImage }
  if (provider !== 'gemini') return {}
  const thoughts = upstream_model.startsWith('gemini-2') ? 0 : tokenCounts.thoughts
  return {
    input: n * countTokens(prompt),
    imageInput: n * references * tokenCounts.imageInput,
    output: n * (countTokens(caption) + thoughts),
    imageOutput: n * painters[upstream_model]!.tokens['1K']!,
  }
}

function speechCases(offer: Offer): Case[] {
  const { kind = {} } = offer.row
  return list(kind.formats).map(format => {
    const input = textOf('Good day. ¿Qué tal, 世界? 👋 This is')
    const made = base(offer, `as ${format}`, { input, response_format: format }, input.slice(input.indexOf('case')))
    return { ...made, format, used: { characters: charactersOf(input), ...tokensOfSpeech(offer, input) } }
  })
}

function tokensOfSpeech({ deployment: { provider } }: Offer, text: string): Used {
  if (provider === 'openai') {
    const { input_tokens, output_tokens } = speechTokens(text)
    return { input: input_tokens, audioOutput: output_tokens }
  }
  const spoken = Math.ceil(Math.max(0.2, text.length / 15) * tokensPerSecond)
  return provider === 'gemini' ? { input: countTokens(text), audioOutput: spoken } : {}
}

const filename = 'heard.wav'

function transcriptCases(offer: Offer): Case[] {
  const { kind = {} } = offer.row
  const of = (what: string, response_format: string, more: object = {}) => {
    const seconds = (500 + ++cases) / 1_000
    const file = wav(seconds * 1_000)
    const { input_token_details, output_tokens } = transcriptTokens(seconds, heardText(filename))
    const used = { seconds, audioInput: input_token_details.audio_tokens, output: output_tokens }
    return { ...base(offer, what, { response_format, ...more }, ''), file, mark: file, used, format: response_format }
  }
  const charged = (option: string, made: Case): Case => {
    const isPriced = offer.deployment.price.unit === 'minute' && offer.deployment.price.added_by_option !== undefined
    return isPriced ? { ...made, used: { ...made.used, options: [option] } } : made
  }
  return [
    ...list(kind.formats).map(format =>
      format === 'diarized_json' ? charged('speakers', of(`as ${format}`, format)) : of(`as ${format}`, format),
    ),
    ...(kind.keywords ? [charged('keywords', of('with keywords', 'json', { keywords: 'Headgate' }))] : []),
    ...(kind.stream ? [{ ...of('in pieces', 'json', { stream: 'true' }), format: 'events' }] : []),
  ]
}

function soundCases(offer: Offer): Case[] {
  const { kind = {} } = offer.row
  const { needs_lyrics } = offer.deployment.traits ?? {}
  const { min_duration_s, max_duration_s, formats } = kind
  const duration_s = max_duration_s === undefined ? undefined : Math.max(1, Number(min_duration_s ?? 1))
  return (formats === undefined ? ['mp3'] : list(formats)).map(output_format => {
    const prompt = textOf('A slow waltz')
    const body = { prompt, output_format, duration_s, ...(needs_lyrics && { lyrics: 'La la la' }) }
    return { ...base(offer, `as ${output_format}`, body, prompt), format: output_format }
  })
}
