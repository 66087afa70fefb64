import { imageTokens } from '../../../catalog/image-tokens.ts'
import type { Content } from '../../realtime-contract.ts'
import { orEscaped } from '../../toolkit/marks.ts'
import { addContent, noContent } from '../../toolkit/pending-responses.ts'

/** Base64 characters per audio token: user audio has 10 tokens a second, the model's 20. */
const charactersByFormat = {
  pcm: { input: (24_000 * 2 * 4) / 3 / 10, output: (24_000 * 2 * 4) / 3 / 20 },
  telephone: { input: (8_000 * 4) / 3 / 10, output: (8_000 * 4) / 3 / 20 },
}

/** Base64 characters per token of audio in a format; an unknown format is taken for PCM, the default. */
export function charactersPerToken(format: unknown, side: 'input' | 'output'): number {
  return (/pcm[ua]|g711/.test(String(format)) ? charactersByFormat.telephone : charactersByFormat.pcm)[side]
}

const typeName = '"type"'
const append = /"type"\s*:\s*"input_audio_buffer\.append"/y

/** Any escape except those with which some encoders write base64. */
const otherEscape = /\\(?!\/|u002[bf]|u003d)/i

/** Whether a frame contains audio and nothing else, according to its single type. */
export function isSound(text: string): boolean {
  const at = text.indexOf(typeName)
  if (at < 0) return false
  append.lastIndex = at
  return append.test(text) && text.indexOf(typeName, at + 1) < 0 && !otherEscape.test(text)
}

/** Matches what can add content to a conversation, in any spelling. */
const contentMarks = orEscaped(/"(?:item|session|response)"/)
const image = /"input_image"/g
const imageData = /"image_url"\s*:\s*"data:[^"]*"/g
const soundData = /"audio"\s*:\s*"([A-Za-z0-9+/=\\]*)"/g
/** Matches frames where such names need not refer to content. */
const ambiguousMarks = orEscaped(/"tools"/)

/** Upper bound of what a client frame, other than pure audio, adds to a prompt. */
export function contentOf(text: string, perToken: number): Content {
  const content = noContent()
  if (!contentMarks.test(text)) return content
  if (ambiguousMarks.test(text)) return addContent(content, { textBytes: text.length })
  const sounds = sum(text, soundData, ([, data]) => data!.length)
  const images = sum(text, image, () => 1)
  const imageBytes = images === 0 ? 0 : sum(text, imageData, ([data]) => data.length)
  return addContent(content, {
    audioTokens: Math.ceil(sounds / perToken),
    imageTokens: images * imageTokens.realtimeBound.openai,
    textBytes: text.length - sounds - imageBytes,
  })
}

function sum(text: string, pattern: RegExp, weight: (match: RegExpExecArray) => number): number {
  let total = 0
  for (const match of text.matchAll(pattern)) total += weight(match)
  return total
}
