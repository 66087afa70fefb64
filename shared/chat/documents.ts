import { GatewayError } from '../base/errors.ts'
import type { DocumentSize } from '../io/media/pdf.ts'
import { fetchPublic } from '../io/safe-url.ts'
import type { Platform } from '../platform.ts'

const maxDocuments = 16
const maxBytes = 32 * 1024 * 1024
const timeoutMs = 15_000

/** A document by URL, and the field of the request that names it. */
type RemoteDocument = { url: string; param: string }

/**
 * Fetches the documents of a request, 32 MiB in all, with their media types without parameters. Throws 400
 * `url_not_allowed`, `invalid_request`, 413 naming the field.
 */
export async function fetchDocuments(
  { urlPolicy }: Pick<Platform, 'urlPolicy'>,
  remote: readonly RemoteDocument[],
): Promise<{ contentType: string; bytes: Buffer }[]> {
  if (remote.length > maxDocuments) {
    const message = `At most ${maxDocuments} documents can be sent by URL; send the others inline.`
    throw new GatewayError('invalid_request', message, { param: remote[maxDocuments]!.param })
  }
  const files: { contentType: string; bytes: Buffer }[] = []
  let bytesLeft = maxBytes
  for (const { url, param } of remote) {
    const { contentType, bytes } = await fetchPublic(url, { ...urlPolicy, maxBytes: bytesLeft, timeoutMs, param })
    bytesLeft -= bytes.length
    const [type] = contentType.split(';')
    files.push({ contentType: type!.trim() || 'application/octet-stream', bytes })
  }
  return files
}

/** The size of all documents; null if one is unknown. */
export function totalSize(sizes: readonly (DocumentSize | null)[]): DocumentSize | null {
  const total = { pages: 0, textBytes: 0 }
  for (const size of sizes) {
    if (size === null) return null
    total.pages += size.pages
    total.textBytes += size.textBytes
  }
  return total
}
