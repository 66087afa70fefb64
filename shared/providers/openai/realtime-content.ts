import type { Content } from '../realtime-contract.ts'
import { addContent, noContent } from '../session-answers.ts'

/** Base64 characters a token of sound: users' have 10 tokens a second, the model's 20. */
const rates = {
  pcm: { input: (24_000 * 2 * 4) / 3 / 10, output: (24_000 * 2 * 4) / 3 / 20 },
  telephone: { input: (8_000 * 4) / 3 / 10, output: (8_000 * 4) / 3 / 20 },
}
const tokensPerImage = 5_000

/** How many base64 characters of a sound in a format are a token; what is not known is taken for PCM, which is usual. */
export function charactersPerToken(format: unknown, side: 'input' | 'output'): number {
  return (/pcm[ua]|g711/.test(String(format)) ? rates.telephone : rates.pcm)[side]
}

const typeName = '"type"'
const append = /"type"\s*:\s*"input_audio_buffer\.append"/y

/** Escapes but for those with which some encoders write base64. */
const otherEscape = /\\(?!\/|u002[bf]|u003d)/i

/** Whether a frame only brings sound, and nothing else that could be read in it: that is told by its one type. */
export function isSound(text: string): boolean {
  const at = text.indexOf(typeName)
  if (at < 0) return false
  append.lastIndex = at
  return append.test(text) && text.indexOf(typeName, at + 1) < 0 && !otherEscape.test(text)
}

/** What can bring content into a conversation, by any spelling. */
const bringing = /"(?:item|session|response)"|\\u00(?:2e|5f|[46][1-9a-f]|[57][\da])/i
const image = /"input_image"/g
const imageData = /"image_url"\s*:\s*"data:[^"]*"/g
const soundData = /"audio"\s*:\s*"([A-Za-z0-9+/=\\]*)"/g
/** Where such names need not be those of content. */
const doubtful = /"tools"|\\u00(?:2e|5f|[46][1-9a-f]|[57][\da])/i

/** The most that a client's frame, which is no sound alone, brings into a prompt. */
export function contentOf(text: string, perToken: number): Content {
  const content = noContent()
  if (!bringing.test(text)) return content
  if (doubtful.test(text)) return addContent(content, { textBytes: text.length })
  const sounds = sum(text, soundData, ([, data]) => data!.length)
  const images = sum(text, image, () => 1)
  const imageBytes = images === 0 ? 0 : sum(text, imageData, ([data]) => data.length)
  return addContent(content, {
    audioTokens: Math.ceil(sounds / perToken),
    imageTokens: images * tokensPerImage,
    textBytes: text.length - sounds - imageBytes,
  })
}

function sum(text: string, pattern: RegExp, weight: (match: RegExpExecArray) => number): number {
  let total = 0
  for (const match of text.matchAll(pattern)) total += weight(match)
  return total
}
