import { imageTokens } from '../catalog/image-tokens.ts'
import type { DocumentSize } from '../io/media/pdf.ts'
import type { FileKind, FileRule } from '../kinds/member-reader.ts'

/** Images, audio and documents of a prompt. Null = not measured yet, or size unknown. */
export type PromptMedia = {
  images: number
  /** Total duration of the audio, in milliseconds. */
  soundMs: number | null
  /** Earlier audio answers, which the provider stores and rereads. */
  earlierSounds: number
  documents: DocumentSize | null
}

export const noMedia: PromptMedia = { images: 0, soundMs: 0, earlierSounds: 0, documents: { pages: 0, textBytes: 0 } }

/** The files found in a request, by their kinds. */
export class FoundFiles {
  readonly #counts: Record<FileKind, number> = { image: 0, sound: 0, document: 0 }
  readonly #characters: Record<FileKind, number> = { image: 0, sound: 0, document: 0 }
  /** Images of earlier work, which a model that takes none ignores. */
  #records = 0

  file({ file, record }: FileRule, characters: number): void {
    this.#counts[file]++
    this.#characters[file] += characters
    if (record) this.#records++
  }

  /** The size of a body without its files. */
  textBytes(bodyBytes: number): number {
    const { image, sound, document } = this.#characters
    return Math.max(0, bodyBytes - image - sound - document)
  }

  /** The estimated tokens of all files: of sounds and documents by their characters in base64. */
  get tokensEstimate(): number {
    const { sound, document } = this.#characters
    return this.#counts.image * imageTokens.inputEstimate + Math.ceil(sound / 256) + Math.ceil(document / 32)
  }

  /** Before sounds and documents are measured. */
  get media(): PromptMedia {
    const { image, sound, document } = this.#counts
    if (image + sound + document === 0) return noMedia
    return {
      images: image,
      soundMs: sound > 0 ? null : noMedia.soundMs,
      earlierSounds: 0,
      documents: document > 0 ? null : noMedia.documents,
    }
  }

  /** What a model must be able to read. */
  get inputs(): { image: boolean; audio: boolean; file: boolean } {
    const { image, sound, document } = this.#counts
    return { image: image > this.#records, audio: sound > 0, file: document > 0 }
  }
}
