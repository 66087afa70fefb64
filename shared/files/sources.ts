import { buffer } from 'node:stream/consumers'
import { extensionOf } from '../io/media/media-type.ts'
import type { Reference, References } from '../kinds/media.ts'
import type { Platform } from '../platform.ts'
import type { Source } from '../providers/contract.ts'
import { retainedForJobsMs } from './files.ts'

/** A job's references by field, as adapter inputs. */
export function sourcesOf(services: Platform, references: References): ReadonlyMap<string, Source> {
  return new Map(Object.entries(references).map(([field, reference]) => [field, sourceOf(services, reference)]))
}

/** A stored file as an adapter input. */
export function sourceOf({ blobs, clock, config }: Platform, reference: Reference): Source {
  const { storageKey, contentType, bytes, filename, durationS } = reference
  const url = () => blobs.signedUrl({ key: storageKey, contentType }, clock.now() + retainedForJobsMs)
  const open = async () => {
    const blob = await blobs.read(storageKey)
    if (!blob) throw new Error('a reference is no longer in storage')
    return blob.stream
  }
  const base64 = async () => (await buffer(await open())).toString('base64')
  const reachable = config.reachable || config.storageUrl.startsWith('s3:')
  // By the source's own `base64`, which a caller may replace.
  async function link(this: Source) {
    return reachable ? url() : `data:${contentType};base64,${await this.base64()}`
  }
  // Some providers infer a file's type from its extension.
  const name = /\.\w{2,5}$/.test(filename) ? filename : `${filename}.${extensionOf(contentType)}`
  return { contentType, bytes, filename: name, durationS, url, link, base64, open }
}
