import { createHash } from 'node:crypto'
import { GatewayError } from '../base/errors.ts'
import { atMost, type Bytes, bytesOf, close, peek } from '../io/bytes.ts'
import { measureMedia } from '../io/media-processes.ts'
import { formatOf, sniff, sniffedBytes } from '../io/media-type.ts'
import { openPublic, UrlRefused } from '../io/safe-url.ts'
import type { FileOwner, StoredFile } from '../jobs/files.ts'
import type { ProviderFile } from '../kinds/media.ts'
import { ProviderError, type ProviderLine } from '../providers/contract.ts'
import type { Services } from '../services.ts'
import { rangesOf } from './ranges.ts'

const mostBytes = 1024 ** 3
const downloadMs = 10 * 60_000
const measureMs = 10_000
const mostRedirects = 3

/** `durationS` is measured, in seconds; null for what has no length or cannot be measured. */
export type StoredResult = StoredFile & { durationS: number | null }

type Download = { body: Bytes; contentType: string }

/**
 * Copies a finished file from the provider into storage, under one id per job and name: done again it replaces itself. The
 * provider's API key goes to the provider's own origin only. Throws a ProviderError: `invalid_response` for what will be no
 * better the next time (a refused address, a page, nothing, more than 1 GiB), other reasons for what may; and what the
 * storage throws.
 */
export async function storeResult(
  services: Services,
  line: ProviderLine,
  job: { id: string } & FileOwner,
  file: ProviderFile,
  name: string,
  expiresAtMs: number,
): Promise<StoredResult> {
  const download =
    'bytes' in file
      ? { body: bytesOf(file.bytes), contentType: file.contentType }
      : await openProviderFile(services, line, file.url)
  const { head, body } = await peek(download.body, sniffedBytes)
  try {
    const contentType = await typeOf(head, download.contentType)
    const extension = formatOf(contentType)?.extension
    const stored = await services.files.store(
      atMost(body, mostBytes, () => unusable('is larger than 1 GiB')),
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
    return { ...stored, durationS: await durationOf(services, job.organisationId, stored) }
  } finally {
    await close(body)
  }
}

async function durationOf({ blobs, log }: Services, organisationId: string, file: StoredFile): Promise<number | null> {
  const { storageKey, contentType, bytes } = file
  if (!/^(?:video|audio)\//.test(contentType)) return null
  try {
    const length = await measureMedia(rangesOf(blobs, storageKey, bytes), measureMs, organisationId)
    return length?.seconds ?? null
  } catch (error) {
    // Too busy to measure: the file itself is whole.
    if (!(error instanceof GatewayError)) throw error
    log.warn({ err: error, storageKey }, 'a result was not measured')
    return null
  }
}

/** The type of a file by its bytes, else as the provider says it. Throws for no bytes and for a page. */
async function typeOf(head: Buffer, declared: string): Promise<string> {
  if (head.length === 0) throw unusable('is empty')
  const found = await sniff(head)
  const said = formatOf(declared)
  // A USDZ file is a ZIP file, and only the provider knows that it is one.
  if (found && !(found.extension === 'zip' && said)) return found.contentType
  if (/^text\/html|xhtml/.test(declared) || looksLikePage(head)) throw unusable('is a web page')
  return said?.contentType ?? 'application/octet-stream'
}

function looksLikePage(head: Buffer): boolean {
  return /^\s*<(?:!doctype html|html|head|body)\b/i.test(head.toString('latin1', 0, 256))
}

/**
 * Opens a provider's file: on its own origin through its own line, elsewhere through the safe-url door, until `signal`
 * is aborted. Throws a ProviderError, and so does the body.
 */
export async function openProviderFile(
  services: Services,
  line: ProviderLine,
  address: string,
  signal?: AbortSignal,
): Promise<Download> {
  const own = new URL(line.baseUrl).origin
  let next = address
  for (let hop = 0; hop <= mostRedirects; hop++) {
    if (!URL.canParse(next)) throw unusable('has an address that is no URL')
    const url = new URL(next)
    if (url.origin !== own || url.username || url.password) return elsewhere(services, url.href, signal)
    const { status, headers, stream } = await line.open(url.pathname + url.search, signal)
    if (status === 200) return { body: explained(stream), contentType: mediaTypeOf(headers['content-type']) }
    stream.destroy()
    const { location } = headers
    if (![301, 302, 303, 307, 308].includes(status) || typeof location !== 'string') throw refusedWith(status)
    if (!URL.canParse(location, url.href)) throw unusable('has an address that is no URL')
    next = new URL(location, url).href
  }
  throw unusable('redirects too often')
}

async function elsewhere({ door }: Services, address: string, signal?: AbortSignal): Promise<Download> {
  const rules = { ...door, maxBytes: mostBytes, timeoutMs: downloadMs, ...(signal && { signal }) }
  try {
    const { stream, contentType } = await openPublic(address, rules)
    return { body: explained(stream), contentType }
  } catch (error) {
    throw explanationOf(error)
  }
}

/** A body whose failures are the provider's. */
async function* explained(body: Bytes): Bytes {
  try {
    yield* body
  } catch (error) {
    throw explanationOf(error)
  }
}

function explanationOf(error: unknown): unknown {
  if (error instanceof ProviderError) return error
  if (error instanceof UrlRefused && !error.transient) return unusable('cannot be fetched from where it is', error)
  return new ProviderError('connection', 'The provider’s file could not be downloaded.', { cause: error })
}

function refusedWith(status: number): ProviderError {
  const reason = status === 429 || status >= 500 ? 'server_error' : 'invalid_response'
  return new ProviderError(reason, `The provider refused its own file with status ${status}.`, { status })
}

function unusable(problem: string, cause?: unknown): ProviderError {
  return new ProviderError('invalid_response', `The provider’s file ${problem}.`, { cause })
}

function mediaTypeOf(header: string | string[] | undefined): string {
  return String(header ?? '')
    .split(';')[0]!
    .trim()
    .toLowerCase()
}
