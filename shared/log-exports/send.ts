import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { noProxies } from '../base/proxies.ts'
import type { Clock } from '../base/time.ts'
import type { LogExport } from '../generated/prisma/client.ts'
import type { PinnedPools } from '../io/pinned-pools.ts'
import { assertPublicUrl, type UrlPolicy } from '../io/safe-url.ts'
import type { Sealer } from '../io/sealer.ts'
import type { S3Blobs } from '../io/storage/blobs-s3.ts'
import { failedReply, type Message, postWebhook, type Reply } from '../webhooks/post.ts'
import { newestFirst, signatureHeaders } from '../webhooks/secrets.ts'
import type { LogExports } from './log-exports.ts'
import { presentRow, type RowOf, type Stream, schemaVersion } from './rows.ts'
import { openCredentials } from './settings.ts'

const compress = promisify(gzip)
const defaultRegion = 'us-east-1'

/** A batch of a stream: it has the same id, number and time on every attempt. */
export type Batch<S extends Stream = Stream> = {
  stream: S
  id: string
  sequence: number
  /** When it was formed. */
  at: Date
  /** Null for the live stream. */
  replayId: string | null
  /** Names the object in S3 below the stream's folder. */
  objectName: string
  rows: RowOf[S][]
}

export type SendServices = { logExports: LogExports; sealer: Sealer; clock: Clock; urlPolicy: UrlPolicy }
type Sending = { pools: PinnedPools; timeoutMs: number }

/** Sends a batch to its destination, whose address is checked each time. Never throws for what the destination does. */
export async function sendBatch(
  services: SendServices,
  row: LogExport,
  batch: Batch,
  sending: Sending,
): Promise<Reply> {
  if (row.kind === 'otlp') {
    const { encodeOtlp } = await import('./otlp.ts')
    const { path, body } = encodeOtlp(batch.stream, batch.rows, row.format)
    return post(services, row, `${row.url}${path}`, body, otlpType(row), sending)
  }
  const chosen = (row.fields as Partial<Record<Stream, string[]>> | null)?.[batch.stream] ?? null
  const body = formatRows(
    batch.rows.map(one => presentRow(batch.stream, one, chosen)),
    row.format,
  )
  if (row.kind === 's3') return put(services, row, objectKey(row, batch), body, sending)
  return post(services, row, row.url!, body, batchHeaders(services, row, batch, body), sending)
}

/** Sends a sample, to see whether the destination accepts it: a row of the type `test`, an empty batch of OTLP, an object in S3. */
export async function sendTest(services: SendServices, row: LogExport, id: string, sending: Sending): Promise<Reply> {
  const at = new Date(services.clock.now())
  if (row.kind === 'otlp') {
    const { encodeOtlp } = await import('./otlp.ts')
    const stream = row.streams[0] as Stream
    const { path, body } = encodeOtlp(stream, [], row.format)
    return post(services, row, `${row.url}${path}`, body, otlpType(row), sending)
  }
  const sample = { object: 'test', schema_version: schemaVersion, id, created_at: at.toISOString() }
  const body = formatRows([sample], row.format)
  if (row.kind === 's3') return put(services, row, `${folderOf(row)}headgate-test${extensionOf(row)}`, body, sending)
  const batch = { stream: 'test', id, sequence: 0, at, replayId: null, rows: [sample] }
  return post(services, row, row.url!, body, batchHeaders(services, row, batch, body), sending)
}

function formatRows(rows: readonly object[], format: string): string {
  const lines = rows.map(row => JSON.stringify(row))
  return format === 'json' ? `[${lines.join(',')}]` : lines.map(line => `${line}\n`).join('')
}

function contentTypeOf({ format }: LogExport): string {
  return format === 'json' ? 'application/json' : 'application/x-ndjson'
}

function otlpType({ format }: LogExport): Record<string, string> {
  return { 'content-type': format === 'json' ? 'application/json' : 'application/x-protobuf' }
}

type Announced = Pick<Batch, 'id' | 'sequence' | 'at' | 'replayId'> & { stream: string; rows: readonly unknown[] }

/** The signature is that of a webhook, over the body before it is compressed. */
function batchHeaders(
  { logExports, clock }: SendServices,
  row: LogExport,
  { stream, id, sequence, at, replayId, rows }: Announced,
  body: string,
): Record<string, string> {
  const secrets = newestFirst(logExports.secretsOf(row)!)
  return {
    'content-type': contentTypeOf(row),
    ...signatureHeaders(secrets, id, clock.now(), body),
    'headgate-export': row.id,
    'headgate-export-stream': stream,
    'headgate-export-sequence': String(sequence),
    'headgate-export-rows': String(rows.length),
    'headgate-export-schema': String(schemaVersion),
    'headgate-export-batch-at': at.toISOString(),
    ...(replayId !== null && { 'headgate-export-replay': replayId }),
  }
}

async function post(
  services: SendServices,
  row: LogExport,
  url: string,
  body: string | Buffer,
  headers: Record<string, string>,
  sending: Sending,
): Promise<Reply> {
  const own = openCredentials(services.sealer, row).headers
  const sent = await packed(row, body)
  return exchangeChecked(
    services,
    url,
    { headers: { 'user-agent': 'headgate', ...own, ...headers, ...sent.headers }, body: sent.body },
    sending,
  )
}

async function put(
  services: SendServices,
  row: LogExport,
  key: string,
  body: string,
  sending: Sending,
): Promise<Reply> {
  const s3 = await openBucket(services, row)
  try {
    const { body: bytes } = await packed(row, body)
    // The object is a gzip file, rather than text in a coding: readers differ in whether they undo one.
    const headers = { 'content-type': row.gzip ? 'application/gzip' : contentTypeOf(row) }
    return await exchangeChecked(services, await s3.signedPutUrl(key), { method: 'PUT', headers, body: bytes }, sending)
  } finally {
    s3.close()
  }
}

/** The client signs URLs only; requests go to checked addresses as those of webhooks do. */
async function openBucket({ sealer, clock, urlPolicy }: SendServices, row: LogExport): Promise<S3Blobs> {
  const { S3Blobs } = await import('../io/storage/blobs-s3.ts')
  const url = new URL(`s3://${row.bucket}`)
  url.username = encodeURIComponent(row.accessKeyId!)
  url.password = encodeURIComponent(openCredentials(sealer, row).secretAccessKey!)
  url.searchParams.set('region', row.region ?? defaultRegion)
  if (row.url !== null) url.searchParams.set('endpoint', row.url)
  if (row.pathStyle) url.searchParams.set('path_style', 'true')
  return new S3Blobs(url.href, clock, urlPolicy.proxies ?? noProxies, { signsOnly: true })
}

async function packed(
  { gzip: isPacked }: LogExport,
  body: string | Buffer,
): Promise<{ body: string | Buffer; headers: Record<string, string> }> {
  if (!isPacked) return { body, headers: {} }
  return { body: await compress(body), headers: { 'content-encoding': 'gzip' } }
}

async function exchangeChecked(
  { urlPolicy }: SendServices,
  url: string,
  message: Message,
  { pools, timeoutMs }: Sending,
): Promise<Reply> {
  const target = await assertPublicUrl(url, urlPolicy).catch(failedReply)
  if ('error' in target) return target
  return postWebhook(message, target, pools, { timeoutMs, passedMs: 0 })
}

/** By stream and day: a repeated batch overwrites its object. */
function objectKey(row: LogExport, { stream, at, objectName }: Batch): string {
  const day = at.toISOString().slice(0, 10).replaceAll('-', '/')
  return `${folderOf(row)}${stream}/${day}/${objectName}${extensionOf(row)}`
}

function folderOf({ prefix }: LogExport): string {
  return prefix ? `${prefix}/` : ''
}

function extensionOf({ format, gzip: isPacked }: LogExport): string {
  return `.${format}${isPacked ? '.gz' : ''}`
}
