import { asText } from '../../../base/as-text.ts'
import { imageTokens } from '../../../catalog/image-tokens.ts'
import type { Content } from '../../realtime-contract.ts'
import type { Json } from '../../toolkit/json-fields.ts'
import { escapedName } from '../../toolkit/marks.ts'
import { addContent, noContent } from '../../toolkit/pending-responses.ts'
import { isText, jsonBytes, maxClientValues, readFrame, textBytes } from '../../toolkit/read-frame.ts'

/** Base64 characters per audio token: user audio has 10 tokens a second, the model's 20. */
const charactersByFormat = {
  pcm: { input: (24_000 * 2 * 4) / 3 / 10, output: (24_000 * 2 * 4) / 3 / 20 },
  telephone: { input: (8_000 * 4) / 3 / 10, output: (8_000 * 4) / 3 / 20 },
}

/** Base64 characters per token of audio in a format; an unknown format is taken for PCM, the default. */
export function charactersPerToken(format: unknown, side: 'input' | 'output'): number {
  return (/pcm[ua]|g711/.test(asText(format)) ? charactersByFormat.telephone : charactersByFormat.pcm)[side]
}

/** What a client's frame contains. */
export type ClientContent = {
  /** The type of its event; null where the provider may read another one than we do. */
  type: string | null
  event: Json
  /** Characters of base64 of the sound in its items. */
  soundCharacters: number
  images: number
  files: number
  /** References to items of the conversation. */
  references: number
  /** Everything else. */
  textBytes: number
}

/** The names of every event of a client. Some parsers take others for them, as `Type` for `type`. */
const plainName = /^[a-z_]+$/
const images = /"input_image"/g
const files = /"input_file"/g
const references = /"item_reference"/g
const maxReferences = 1_000

/** Reads a client's frame. One that parsers may read in several ways is text as a whole, with all that it may refer to. */
export function readClientContent(frame: Buffer): ClientContent {
  const read = readFrame(frame, maxClientValues)
  if (!read || read.hasDuplicates || !Object.keys(read.event).every(name => plainName.test(name)))
    return unclearContent(frame)
  const { event } = read
  const content = { soundCharacters: 0, images: 0, files: 0, references: 0, textBytes: 0 }
  content.textBytes = jsonBytes(event, object => textOfPart(object, content))
  return { type: typeof event.type === 'string' ? event.type : '', event, ...content }
}

function unclearContent(frame: Buffer): ClientContent {
  const text = frame.toString('latin1')
  const count = (marks: RegExp) => text.match(marks)?.length ?? 0
  return {
    type: null,
    event: {},
    soundCharacters: 0,
    textBytes: frame.length,
    images: count(images),
    files: count(files),
    references: escapedName.test(text) ? maxReferences : count(references),
  }
}

/** Counts a part of an item; returns the size of its text, null if it is not known to be another thing than text. */
function textOfPart(part: Json, content: Omit<ClientContent, 'type' | 'event'>): number | null {
  const { audio, image_url: image, ...rest } = part
  switch (part.type) {
    case 'item_reference':
      content.references++
      return null
    case 'input_file':
      content.files++
      return null
    case 'input_image':
      content.images++
      return isText(image) ? jsonBytes(rest) : null
    case 'input_audio':
    case 'output_audio':
    case 'audio':
      content.soundCharacters += textBytes(audio)
      return isText(audio) ? jsonBytes(rest) : null
    default: {
      if (part.tools === undefined) return null
      // Parameters of a tool may have any names, and are text.
      const { tools, ...others } = part
      return jsonBytes(tools) + jsonBytes(others, object => textOfPart(object, content))
    }
  }
}

/** Upper bound of what a frame adds to a prompt. */
export function contentOf({ soundCharacters, images, textBytes }: ClientContent, perToken: number): Content {
  return addContent(noContent(), {
    audioTokens: Math.ceil(soundCharacters / perToken),
    imageTokens: images * imageTokens.realtimeBound.openai,
    textBytes,
  })
}
