import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import { oneLine } from '../base/one-line.ts'
import { storableTime } from '../base/time.ts'
import type { LogExport } from '../generated/prisma/client.ts'
import { assertPublicUrl, type UrlPolicy } from '../io/safe-url.ts'
import type { Sealer } from '../io/sealer.ts'
import { fieldNames, streams } from './rows.ts'

export const maxExports = 10
const maxHeaders = 20
/** What the gateway sets itself, or what would change how the request is framed. */
const reservedHeaders =
  /^(?:host|connection|content-(?:length|type|encoding)|transfer-encoding|te|trailer|upgrade|expect|keep-alive|proxy-.*|webhook-.*|headgate-.*|user-agent)$/i

const name = oneLine(z.string().min(1).max(100))
const url = z
  .string()
  .min(1)
  .max(2_048)
  .describe('An https URL: of the receiver; of the collector, without `/v1/traces`; or of an S3-compatible server.')
const headers = z
  .record(
    z
      .string()
      .regex(/^[\w!#$%&'*+.^`|~-]{1,100}$/)
      .refine(text => !reservedHeaders.test(text), 'is set by the gateway'),
    z.string().regex(/^[\t\x20-\x7e]{1,4096}$/),
  )
  .refine(record => Object.keys(record).length <= maxHeaders, `must have at most ${maxHeaders} headers`)
  .describe(
    'Headers of each request, such as an API key of the receiver. Their values are stored encrypted and never shown.',
  )
const fieldList = (stream: keyof typeof fieldNames) =>
  z
    .array(z.enum(fieldNames[stream] as [string, ...string[]]))
    .min(1)
    .max(100)
    .optional()
const fields = z
  .strictObject({ requests: fieldList('requests'), audit: fieldList('audit'), content: fieldList('content') })
  .nullable()
  .describe('The fields of each stream; all by default. `id` and `created_at` are always sent. Not for `otlp`.')
const bucket = z
  .string()
  .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/)
  .describe('The name of the bucket, of `s3`.')
const region = z
  .string()
  .regex(/^[a-z0-9-]{1,40}$/)
  .nullable()
  .describe('Of the bucket; null = `us-east-1`.')
const prefix = z
  .string()
  .max(200)
  .regex(/^(?:[\w.-]+(?:\/[\w.-]+)*\/?)?$/)
  .describe('The folder of the objects.')
const format = z
  .enum(['ndjson', 'json', 'protobuf'])
  .describe('Lines of JSON or an array; of `otlp` JSON or protobuf. The default is `ndjson`, of `otlp` `protobuf`.')

/** What can be changed; all but `kind`. */
const changeable = {
  name,
  url: url.nullable(),
  bucket,
  region,
  prefix,
  path_style: z.boolean().describe('Whether the bucket is in the path of URLs, not in the host.'),
  access_key_id: z.string().min(1).max(200).describe('Of the account that writes to the bucket.'),
  secret_access_key: z.string().min(1).max(500).describe('Stored encrypted and never shown.'),
  headers,
  format,
  gzip: z.boolean().describe('True by default.'),
  streams: z.array(z.enum(streams)).min(1).max(streams.length).describe('The logs that are delivered.'),
  environment: z.enum(['live', 'test']).nullable().describe('Only requests of this environment; null = of both.'),
  fields,
  interval_s: z
    .int()
    .min(1)
    .max(3_600)
    .describe('How long rows may wait for a batch to fill: 10 seconds by default, for `s3` 300.'),
  enabled: z.boolean().describe('Whether batches are delivered. What is written meanwhile is delivered later.'),
}

/** The body of a request that creates an export. */
export const newExport = z
  .strictObject({
    kind: z
      .enum(['https', 'otlp', 's3'])
      .describe('Where batches go: a receiver, an OpenTelemetry collector, or a bucket.'),
    ...z.strictObject(changeable).partial().shape,
    name,
    streams: changeable.streams,
  })
  .meta({ id: 'CreateLogExportRequest' })
/** The body of a request that updates an export. */
export const exportPatch = z.strictObject(changeable).partial().meta({ id: 'UpdateLogExportRequest' })
export const newReplay = z
  .strictObject({
    streams: z.array(z.enum(streams)).min(1).max(streams.length).optional().describe('Those of the export by default.'),
    from: storableTime.describe('The earliest `created_at` of its rows.'),
    to: storableTime.describe('The end of the window, excluded; at most now.'),
  })
  .meta({ id: 'CreateLogExportReplayRequest' })

export type NewExport = z.output<typeof newExport>
export type ExportPatch = z.output<typeof exportPatch>
export type NewReplay = z.output<typeof newReplay>
export type ExportKind = NewExport['kind']

/** The secrets of an export. */
type Credentials = { headers: Record<string, string>; secretAccessKey: string | null }

export const credentialsPlace = (id: string) => `log_exports.credentials:${id}`

export function openCredentials(
  sealer: Sealer,
  { id, credentials }: Pick<LogExport, 'id' | 'credentials'>,
): Credentials {
  if (credentials === null) return { headers: {}, secretAccessKey: null }
  return JSON.parse(sealer.open(credentials, credentialsPlace(id))) as Credentials
}

type Columns = Pick<
  LogExport,
  | ('name' | 'url' | 'bucket' | 'region' | 'prefix' | 'pathStyle' | 'accessKeyId' | 'format' | 'gzip' | 'streams')
  | ('environment' | 'intervalS' | 'enabled' | 'headerNames' | 'fields')
>
export type Settings = Columns & { credentials: Credentials }

const defaults = (kind: ExportKind): Settings => ({
  name: '',
  url: null,
  bucket: null,
  region: null,
  prefix: null,
  pathStyle: false,
  accessKeyId: null,
  format: kind === 'otlp' ? 'protobuf' : 'ndjson',
  gzip: true,
  streams: [],
  environment: null,
  fields: null,
  intervalS: kind === 's3' ? 300 : 10,
  enabled: true,
  headerNames: [],
  credentials: { headers: {}, secretAccessKey: null },
})

/** The settings after a change, checked as a whole; `before` is absent for a new export. Throws 400. */
export async function changedSettings(
  kind: ExportKind,
  patch: ExportPatch,
  before: Settings | null,
  policy: UrlPolicy,
): Promise<Settings> {
  const current = before ?? defaults(kind)
  const credentials = {
    headers: patch.headers ?? current.credentials.headers,
    secretAccessKey: patch.secret_access_key ?? current.credentials.secretAccessKey,
  }
  const settings: Settings = {
    name: patch.name ?? current.name,
    url: patch.url === undefined ? current.url : patch.url,
    bucket: patch.bucket ?? current.bucket,
    region: patch.region === undefined ? current.region : patch.region,
    prefix: patch.prefix?.replace(/\/+$/, '') ?? current.prefix,
    pathStyle: patch.path_style ?? current.pathStyle,
    accessKeyId: patch.access_key_id ?? current.accessKeyId,
    format: patch.format ?? current.format,
    gzip: patch.gzip ?? current.gzip,
    streams: [...new Set(patch.streams ?? current.streams)],
    environment: patch.environment === undefined ? current.environment : patch.environment,
    fields: patch.fields === undefined ? current.fields : patch.fields,
    intervalS: patch.interval_s ?? current.intervalS,
    enabled: patch.enabled ?? current.enabled,
    headerNames: Object.keys(credentials.headers),
    credentials,
  }
  checkKind(kind, settings, before === null ? {} : patch)
  const address = settings.url
  const isNew = before === null || settings.url !== before.url
  if (address !== null && isNew) {
    const { href } = (await assertPublicUrl(address, { ...policy, param: 'url' })).url
    settings.url = kind === 'https' ? href : href.replace(/\/+$/, '')
  }
  return settings
}

const s3Only = ['bucket', 'region', 'prefix', 'pathStyle', 'accessKeyId'] as const
const wireNames: Record<string, string> = { pathStyle: 'path_style', accessKeyId: 'access_key_id' }
const wireName = (field: string) => wireNames[field] ?? field

function checkKind(kind: ExportKind, settings: Settings, patch: ExportPatch): void {
  const refuse = (param: string, text: string) => {
    throw new GatewayError('invalid_request', text, { param })
  }
  if (kind !== 's3') {
    if (settings.url === null) refuse('url', `An export of the kind ${kind} needs a url.`)
    const foreign = s3Only.find(field => settings[field] !== null && settings[field] !== false)
    if (foreign) refuse(wireName(foreign), 'This is a setting of the kind s3.')
    if (settings.credentials.secretAccessKey !== null) refuse('secret_access_key', 'This is a setting of the kind s3.')
  } else {
    for (const field of ['bucket', 'accessKeyId'] as const)
      if (settings[field] === null) refuse(wireName(field), `An export to s3 needs ${wireName(field)}.`)
    if (settings.credentials.secretAccessKey === null)
      refuse('secret_access_key', 'An export to s3 needs secret_access_key.')
    if (settings.headerNames.length > 0) refuse('headers', 'Objects in s3 have no headers of yours.')
  }
  const formats = kind === 'otlp' ? ['json', 'protobuf'] : ['ndjson', 'json']
  if (!formats.includes(settings.format)) refuse('format', `Of the kind ${kind} it must be ${formats.join(' or ')}.`)
  if (kind === 'otlp' && settings.fields !== null)
    refuse('fields', 'The attributes of otlp follow the semantic conventions; they cannot be chosen.')
  // A new address must not get the secrets of the old one from someone who does not know them.
  const isMoved = patch.url !== undefined && patch.url !== null
  if (isMoved && settings.headerNames.length > 0 && patch.headers === undefined)
    refuse('headers', 'Give the headers again with a new url: their values are not sent to another address.')
  if (isMoved && kind === 's3' && patch.secret_access_key === undefined)
    refuse('secret_access_key', 'Give the secret_access_key again with a new url.')
}
