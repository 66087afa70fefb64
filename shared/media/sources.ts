import { buffer } from 'node:stream/consumers'
import { extensionOf } from '../io/media-type.ts'
import { keptForJobsMs } from '../jobs/files.ts'
import type { Reference, References } from '../kinds/media.ts'
import type { Source } from '../providers/contract.ts'
import type { Services } from '../services.ts'

/** A job's references, by field, as an adapter may hand them on. */
export function sourcesOf(services: Services, references: References): ReadonlyMap<string, Source> {
  return new Map(Object.entries(references).map(([field, reference]) => [field, sourceOf(services, reference)]))
}

/** A file in storage as an adapter may hand it on. */
export function sourceOf({ blobs, clock, config }: Services, reference: Reference): Source {
  const { storageKey, contentType, bytes, filename, durationS } = reference
  const url = () => blobs.signedUrl({ key: storageKey, contentType }, clock.now() + keptForJobsMs)
  const open = async () => {
    const blob = await blobs.read(storageKey)
    if (!blob) throw new Error('a reference is no longer in storage')
    return blob.stream
  }
  const base64 = async () => (await buffer(await open())).toString('base64')
  const reachable = config.reachable || config.storageUrl.startsWith('s3:')
  const link = async () => (reachable ? url() : `data:${contentType};base64,${await base64()}`)
  // Some providers tell a file's type by the end of its name.
  const name = /\.\w{2,5}$/.test(filename) ? filename : `${filename}.${extensionOf(contentType)}`
  return { contentType, bytes, filename: name, durationS, url, link, base64, open }
}
