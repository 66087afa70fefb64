import { hash } from 'node:crypto'
import type { Usage } from '../../../shared/base/usage.ts'
import { examineImage } from '../../../shared/io/media/images.ts'
import type { ImageOutput, ProviderImage } from '../../../shared/kinds/image.ts'
import type { SyncKind, WorkKinds } from '../../../shared/kinds/index.ts'
import type { SoundFormat, SoundOutput } from '../../../shared/kinds/sound.ts'
import type { TranscriptionOutput } from '../../../shared/kinds/transcription.ts'
import { statedTokens } from '../../../shared/media/delivery.ts'
import { awaitFirstFrame } from '../../../shared/media/first-frame.ts'
import { ProviderError } from '../../../shared/providers/provider-error.ts'

export type SyncOutput = WorkKinds[SyncKind]['output']
/** What was given: how many images, bytes of sound, characters of text, results or pages. */
export type Taken = { amount: number; usage: Usage | null }

/**
 * Takes an adapter's output to its end, as the engine does. Throws what its streams fail with, a ProviderError
 * `invalid_response` where there is nothing to deliver, and an Error for what no adapter may give.
 */
export async function taken(output: SyncOutput, format: SoundFormat | null): Promise<Taken> {
  if ('pages' in output) return { amount: output.pages.length, usage: null }
  if ('results' in output) return { amount: output.results.length, usage: 'usage' in output ? output.usage : null }
  const found =
    'images' in output
      ? await imagesIn(output)
      : 'sound' in output
        ? await soundIn(output, format!)
        : await textIn(output)
  if (found.usage) assertUsage(found.usage)
  return found
}

async function imagesIn({ images, usage }: ImageOutput): Promise<Taken> {
  const facts = await Promise.all(images.map(async image => examined(await bytesOf(image))))
  const good = facts.filter(fact => fact !== null)
  if (good.length === 0) throw new ProviderError('invalid_response', 'No image can be decoded.')
  return { amount: good.length, usage }
}

const known = new Map<string, ReturnType<typeof examineImage>>()

/** Decodes each image once: most of what an emulator gives is the same. */
function examined(bytes: Uint8Array): ReturnType<typeof examineImage> {
  const digest = hash('sha256', bytes)
  const facts = known.get(digest) ?? examineImage(bytes)
  known.set(digest, facts)
  return facts
}

async function bytesOf(file: Omit<ProviderImage, 'revisedPrompt'> | SoundOutput['sound']): Promise<Uint8Array> {
  if ('bytes' in file) return file.bytes
  if (!('url' in file)) throw new Error('expected a whole file')
  if (!/^(?:https?|data):/.test(file.url)) throw new Error(`an adapter gave ${file.url} for an address`)
  const answer = await fetch(file.url)
  if (!answer.ok) throw new ProviderError('invalid_response', `The file’s address answered with ${answer.status}.`)
  return answer.bytes()
}

async function soundIn({ sound, usage }: SoundOutput, format: SoundFormat): Promise<Taken> {
  const source = 'stream' in sound ? sound.stream : once(await bytesOf(sound))
  const { body } = await awaitFirstFrame(source, format)
  let amount = 0
  for await (const part of body) amount += part.length
  return { amount, usage: usage() }
}

async function* once(bytes: Uint8Array) {
  yield bytes
}

async function textIn({ pieces, transcript }: TranscriptionOutput): Promise<Taken> {
  let inPieces = ''
  for await (const piece of pieces ?? []) {
    if ('segment' in piece) continue
    if (typeof piece.text !== 'string') throw new Error('a piece of text is none')
    inPieces += piece.text
  }
  const { text, language, segments, words, usage } = transcript()
  if (typeof text !== 'string' || (language !== null && typeof language !== 'string'))
    throw new Error('a transcript has no text, or a language that is none')
  if (pieces !== null && inPieces.trim() !== text.trim())
    throw new ProviderError('invalid_response', `The pieces are ${inPieces}, not ${text}.`)
  for (const { start, end, ...more } of [...(segments ?? []), ...(words ?? [])]) {
    const said = 'text' in more ? more.text : more.word
    if (!Number.isFinite(start) || !Number.isFinite(end) || typeof said !== 'string')
      throw new Error('a segment or word of a transcript has no times or no text')
  }
  return { amount: text.length, usage }
}

/** Asserts that a usage, if what the provider states can be true, can be billed. Throws an Error. */
function assertUsage(reported: Usage): void {
  const usage = statedTokens(reported)
  if (!usage) return
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usage
  const parts = [
    ...Object.values(usage.prompt_tokens_details ?? {}).map(tokens => [tokens, prompt]),
    ...Object.values(usage.completion_tokens_details ?? {}).map(tokens => [tokens, completion]),
    [prompt, total],
    [completion, total],
  ] as [number, number][]
  const isBillable = parts.every(([part, whole]) => Number.isInteger(part) && part >= 0 && part <= whole)
  if (!isBillable || prompt + completion !== total) throw new Error(`no usage: ${JSON.stringify(usage)}`)
}
