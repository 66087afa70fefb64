import type { ModelRow } from '../catalog/schema.ts'
import { convertMedia } from '../io/media/media-processes.ts'
import { type Reference, unsupported } from '../kinds/media.ts'
import { maxTranscribedBytes } from '../kinds/transcription-request.ts'
import type { Source } from '../providers/contract.ts'
import type { FileServices } from './file-services.ts'
import { type FileOwner, retainedForJobsMs, type StoredFile } from './files.ts'
import { rangesOf } from './ranges.ts'
import { sourceOf } from './sources.ts'

type Converted = { stored: StoredFile; source: Source } | 'unreadable' | 'too large'
const flac = 'audio/flac'

/** Converts the sound of one request, once, when the first provider is called that does not take its format. */
export class SoundConversion {
  readonly #services: FileServices
  readonly #owner: FileOwner
  #converted: Promise<Converted> | null = null

  constructor(services: FileServices, owner: FileOwner) {
    this.#services = services
    this.#owner = owner
  }

  /** The sound as FLAC. Throws 400 `unsupported_capability`, so that another provider may take it as it is. */
  async toFlac(sound: Reference, model: ModelRow): Promise<Source> {
    this.#converted ??= this.#convert(sound)
    const converted = await this.#converted
    if (typeof converted !== 'string') return converted.source
    const problem =
      converted === 'too large'
        ? `it is larger than ${maxTranscribedBytes / 2 ** 20} MiB as ${flac}: send it in parts`
        : 'its sound cannot be decoded to convert it'
    throw unsupported(model, 'audio_url', `takes no ${sound.contentType}, and ${problem}`)
  }

  async #convert({ storageKey, bytes, durationS, filename }: Reference): Promise<Converted> {
    const { blobs, clock, files } = this.#services
    const limits = { seconds: durationS ?? 0, maxBytes: maxTranscribedBytes }
    const converted = await convertMedia(rangesOf(blobs, storageKey, bytes), limits, this.#owner)
    if (typeof converted === 'string') return converted
    const { organisationId, environment } = this.#owner
    const file = {
      organisationId,
      environment,
      purpose: 'reference' as const,
      filename: `${filename}.flac`,
      contentType: flac,
      expiresAtMs: clock.now() + retainedForJobsMs,
    }
    const stored = await files.store(streamOf(converted.flac), file)
    return { stored, source: sourceOf(this.#services, { ...stored, filename: file.filename, durationS }) }
  }

  /** Removes the converted file when the request is over. */
  async drop(): Promise<void> {
    const converted = await this.#converted?.catch(() => null)
    if (!converted || typeof converted === 'string') return
    const { files, log } = this.#services
    await files
      .remove([converted.stored])
      .catch(error => log.warn({ err: error }, 'a converted file stays until it expires'))
  }
}

async function* streamOf(pieces: readonly Uint8Array[]): AsyncIterable<Uint8Array> {
  yield* pieces
}
