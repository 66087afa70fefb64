import { createHash } from 'node:crypto'
import { GatewayError } from '../base/errors.ts'
import type { FileServices } from '../files/file-services.ts'
import type { FileOwner, StoredFile } from '../files/files.ts'
import { maxProviderFileBytes, openProviderFile, unusableFileError } from '../files/provider-files.ts'
import { rangesOf } from '../files/ranges.ts'
import { bytesOf, closeBody, limitBytes } from '../io/bytes.ts'
import { maxMeasuringMs, measureMedia } from '../io/media/media-processes.ts'
import { formatOf, peekHead, sniff } from '../io/media/media-type.ts'
import type { ProviderFile } from '../kinds/media.ts'
import type { Platform } from '../platform.ts'
import type { ProviderConnection } from '../providers/contract.ts'

/** `durationS` is measured, in seconds; null for files without a duration and for unmeasurable ones. */
type StoredResult = StoredFile & { durationS: number | null }

/**
 * Copies a finished file from the provider into storage, under one id per job and name, so that a retry replaces it. The
 * provider's API key is sent to the provider's own origin only. Throws a ProviderError: `invalid_response` for permanent
 * faults (a refused URL, a web page, an empty file, more than 1 GiB), other reasons for transient ones; and what the storage
 * throws.
 */
export async function storeResult(
  services: FileServices,
  connection: ProviderConnection,
  job: { id: string } & FileOwner,
  file: ProviderFile,
  name: string,
  expiresAtMs: number,
): Promise<StoredResult> {
  const download =
    'bytes' in file
      ? { body: bytesOf(file.bytes), contentType: file.contentType }
      : await openProviderFile(services, connection, file.url)
  const { head, body } = await peekHead(download.body)
  try {
    const contentType = await typeOf(head, download.contentType)
    const extension = formatOf(contentType)?.extension
    const stored = await services.files.store(
      limitBytes(body, maxProviderFileBytes, () => unusableFileError('is larger than 1 GiB')),
      {
        organisationId: job.organisationId,
        environment: job.environment,
        purpose: 'result',
        filename: extension && !name.endsWith(`.${extension}`) ? `${name}.${extension}` : name,
        contentType,
        expiresAtMs,
        id: `file-${createHash('sha256').update(`${job.id} ${name}`).digest('hex').slice(0, 24)}`,
      },
    )
    return { ...stored, durationS: await durationOf(services, job, stored) }
  } finally {
    await closeBody(body)
  }
}

async function durationOf({ blobs, log }: Platform, owner: FileOwner, file: StoredFile): Promise<number | null> {
  const { storageKey, contentType, bytes } = file
  if (!/^(?:video|audio)\//.test(contentType)) return null
  try {
    const length = await measureMedia(rangesOf(blobs, storageKey, bytes), maxMeasuringMs, owner)
    return length?.seconds ?? null
  } catch (error) {
    // Too busy to measure: the file itself is complete.
    if (!(error instanceof GatewayError)) throw error
    log.warn({ err: error, storageKey }, 'a result was not measured')
    return null
  }
}

/** Detects a file's type from its bytes, else uses the declared one. Throws for an empty file and for a web page. */
async function typeOf(head: Buffer, declared: string): Promise<string> {
  if (head.length === 0) throw unusableFileError('is empty')
  const detected = await sniff(head)
  const declaredFormat = formatOf(declared)
  // A USDZ file is a ZIP file: only the declared type tells them apart.
  if (detected && !(detected.extension === 'zip' && declaredFormat)) return detected.contentType
  if (/^text\/html|xhtml/.test(declared) || isWebPage(head)) throw unusableFileError('is a web page')
  return declaredFormat?.contentType ?? 'application/octet-stream'
}

function isWebPage(head: Buffer): boolean {
  return /^\s*<(?:!doctype html|html|head|body)\b/i.test(head.toString('latin1', 0, 256))
}
