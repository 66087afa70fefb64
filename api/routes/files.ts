import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { newId } from '../../shared/base/ids.ts'
import { dayMs, unixSeconds } from '../../shared/base/time.ts'
import type { FileServices } from '../../shared/files/file-services.ts'
import { type File, publicPurposes, retainedForJobsMs, type StoredFile } from '../../shared/files/files.ts'
import { maxBytes, tooLarge as tooLargeReference } from '../../shared/files/references.ts'
import { closeBody, limitBytes, peek } from '../../shared/io/bytes.ts'
import { inlineDisposition } from '../../shared/io/disposition.ts'
import { extensionOf, formatOf, sniffedBytes, sniffType } from '../../shared/io/media/media-type.ts'
import type { ResolvedKey } from '../../shared/keys/policies.ts'
import { parseFields } from '../body/form.ts'
import type { FilePart } from '../body/multipart.ts'
import { type Endpoint, endpoint, type Form } from '../endpoint.ts'
import { eraseAnswers } from '../idempotency/stored-answer.ts'
import { page } from '../schemas/core.ts'
import { type Page, paging, readPage } from './paging.ts'
import { rangeHeader, sendStoredFile, storedFileAnswers } from './send-stored-file.ts'

const mib = 1024 * 1024
const maxMib = 200
const linesType = 'application/jsonl'
/** Of documents. */
const also = ['*/*']
const shared = { tag: 'Files', access: { scope: '*' }, free: true } as const

const file = z
  .strictObject({
    id: z.string(),
    object: z.literal('file'),
    bytes: z.int(),
    created_at: z.int().describe('Unix seconds.'),
    expires_at: z.int().describe('Unix timestamp (in seconds) at which the file is deleted.'),
    filename: z.string(),
    purpose: z.enum(publicPurposes),
    status: z.literal('processed'),
    status_details: z.null(),
    mimetype: z.string().optional().describe('Of a document.'),
    sample_type: z.literal('ocr_input').optional().describe('Of a document: Mistral’s clients read it.'),
    source: z.literal('upload').optional().describe('Of a document: Mistral’s clients read it.'),
    deleted: z.literal(false).optional().describe('Of a document: Mistral’s clients read it.'),
  })
  .meta({ id: 'FileObject' })

function present({ id, bytes, createdAt, expiresAt, filename, purpose, contentType: mimetype }: File) {
  return {
    id,
    object: 'file',
    bytes: Number(bytes),
    created_at: unixSeconds(createdAt),
    expires_at: unixSeconds(expiresAt),
    filename,
    purpose,
    status: 'processed',
    status_details: null,
    // What the types of Mistral's clients require (@mistralai/mistralai, FileSchema and GetFileResponse).
    ...(purpose === 'ocr' && { mimetype, sample_type: 'ocr_input', source: 'upload', deleted: false }),
  }
}

const anchor = 'expires_after[anchor]'
const life = 'expires_after[seconds]'
const newFile = z
  .strictObject({
    purpose: z
      .enum(['batch', 'ocr'], 'must be `batch` or `ocr`: files for chat are sent in the request, as `file_data`')
      .describe('The input file of a batch, or a document for `/v1/ocr`.'),
    [anchor]: z
      .literal('created_at', 'must be `created_at`')
      .optional()
      .describe('The anchor of `expires_after[seconds]`.'),
    [life]: z.int().min(3_600).max(2_592_000).optional().describe('Replaces the default of 30 days.'),
    // Mistral's clients send these: the life in hours, and who sees the file, which the keys of the organisation do.
    expiry: z.int().min(1).max(720).optional().meta({ 'x-internal': true }),
    visibility: z.enum(['workspace', 'user']).optional().meta({ 'x-internal': true }),
  })
  .check(({ value, issues }) => {
    for (const [one, other] of [
      [anchor, life],
      [life, anchor],
    ] as const)
      if (value[one] !== undefined && value[other] === undefined)
        issues.push({ code: 'custom', path: [other], input: undefined, message: `is required with \`${one}\`` })
  })
  .meta({ id: 'CreateFileRequest', dependentRequired: { [anchor]: [life], [life]: [anchor] } })

/**
 * Stores a document, or a possible batch input, whose lines only batch validation reads. It is stored as an upload until the
 * whole form is validated, as clients may send the file first. Throws a GatewayError: 400 if it is empty or of another type,
 * 413 at the first byte beyond the limit.
 */
async function storeFile(
  { files, clock }: FileServices,
  { policy: { organisationId, environment } }: ResolvedKey,
  { filename, body: sent }: FilePart,
): Promise<StoredFile> {
  const { head, body } = await peek(sent, sniffedBytes)
  try {
    if (head.length === 0) throw new GatewayError('invalid_request', 'The file is empty.')
    const type = head[0] === '{'.charCodeAt(0) ? null : await sniffType(head)
    const isDocument = type !== null && isReadable(type)
    if (type !== null && !isDocument) throw notLines(type)
    const limited = isDocument
      ? limitBytes(body, maxBytes.document, () => tooLargeReference('document'))
      : limitBytes(body, maxMib * mib, tooLarge)
    return await files.store(limited, {
      organisationId,
      environment,
      purpose: 'upload',
      id: newId('file'),
      filename: filename || (isDocument ? `document.${extensionOf(type)}` : 'batch.jsonl'),
      contentType: type ?? linesType,
      expiresAtMs: clock.now() + retainedForJobsMs,
    })
  } finally {
    await closeBody(body)
  }
}

/** Whether a file of a content type can be read by `/v1/ocr`. */
function isReadable(type: string): boolean {
  const family = formatOf(type)?.type
  return family === 'document' || family === 'image'
}

function notLines(type: string): GatewayError {
  const needed = 'Send JSON Lines: one request per line, as uncompressed UTF-8 text.'
  return new GatewayError('invalid_request', `The file is ${type}. ${needed}`, { param: 'file' })
}

/** Asserts that a file is of a type that its purpose has. Throws 400. */
function assertFits({ contentType: type }: StoredFile, purpose: unknown): void {
  if (purpose === 'ocr' && !isReadable(type))
    throw new GatewayError('invalid_request', 'The file must be a document or an image.', { param: 'file' })
  if (purpose === 'batch' && type !== linesType) throw notLines(type)
}

function tooLarge(): GatewayError {
  return new GatewayError('file_too_large', `The file is larger than ${maxMib} MiB. Split it into several batches.`, {
    headers: { connection: 'close' },
  })
}

const form: Form = {
  files: [
    {
      name: 'file',
      required: true,
      description: `JSON Lines: one request per line, ${maxMib} MiB at most; or a document or image of 50 MiB at most.`,
    },
  ],
  only: true,
  example: { file: 'requests.jsonl', purpose: 'batch' },
  store: storeFile,
  toBody(fields, uploads) {
    const body = parseFields(fields, { numbers: [life, 'expiry'] })
    if (uploads[0]) assertFits(uploads[0].file, body.purpose)
    return body
  },
}

const createFile = endpoint({
  ...shared,
  method: 'post',
  path: '/v1/files',
  operationId: 'createFile',
  summary: 'Upload a file',
  description: `Uploads a JSON Lines file of at most ${maxMib} MiB for a batch, which validates its lines, or a document of at most 50 MiB for \`/v1/ocr\`. Kept for 30 days unless \`expires_after\` is set.`,
  body: newFile,
  form,
  answers: { 200: { description: 'The file.', schema: file } },
  async handle({ services: { files, config }, uploads, body: { purpose, expiry, [life]: lifeS }, keep }) {
    const { fileId } = uploads[0]!.file
    const seconds = lifeS ?? (expiry === undefined ? undefined : expiry * 3_600)
    const lifeMs = seconds === undefined ? config.fileRetentionDays * dayMs : seconds * 1_000
    return present(await files.publishWith(fileId, purpose, lifeMs, (tx, file) => keep(tx, present(file))))
  },
})

const listFiles = endpoint({
  ...shared,
  method: 'get',
  path: '/v1/files',
  operationId: 'listFiles',
  summary: 'List files',
  description:
    'Lists input and output files of batches, and documents. Test keys see files of test keys, live keys those of live keys.',
  query: z.strictObject({
    ...paging,
    purpose: z.string().max(64).optional().describe('Filter by purpose.'),
  }),
  answers: { 200: { description: 'A page of files.', schema: page(file, 'FileList') } },
  async handle({ services, apiKey, query }) {
    const { purpose } = query
    const read = (page: Page) =>
      services.files.list(apiKey.policy, { ...page, ...(purpose !== undefined && { purpose }) })
    return readPage(query, read, async rows => rows.map(present))
  },
})

const readFile = endpoint({
  ...shared,
  method: 'get',
  path: '/v1/files/{id}',
  operationId: 'getFile',
  summary: 'Retrieve a file',
  answers: { 200: { description: 'The file.', schema: file } },
  errors: ['not_found'],
  async handle({ services, apiKey, params }) {
    return present(await find(services, apiKey, params.id!))
  },
})

const readContent = endpoint({
  ...shared,
  method: 'get',
  path: '/v1/files/{id}/content',
  operationId: 'getFileContent',
  summary: 'Retrieve file content',
  headers: [rangeHeader],
  answers: {
    ...storedFileAnswers,
    200: { ...storedFileAnswers[200], contentType: linesType, also },
    206: { ...storedFileAnswers[206], contentType: linesType, also },
  },
  errors: ['not_found'],
  async handle({ services, apiKey, params, ctx }) {
    const { storageKey: key, bytes, filename, contentType } = await find(services, apiKey, params.id!)
    ctx.set('content-disposition', inlineDisposition(filename))
    await sendStoredFile(ctx, services.blobs, { key, bytes: Number(bytes), contentType })
  },
})

const readUrl = endpoint({
  ...shared,
  method: 'get',
  path: '/v1/files/{id}/url',
  operationId: 'getFileUrl',
  summary: 'Retrieve the URL of a file',
  description: 'A URL that serves the file without a key, as Mistral’s clients ask for it.',
  query: z.strictObject({
    expiry: z.coerce.number().int().min(1).max(168).default(24).describe('How many hours the URL works.'),
  }),
  answers: {
    200: { description: 'The URL.', schema: z.strictObject({ url: z.string() }).meta({ id: 'FileUrl' }) },
  },
  errors: ['not_found'],
  async handle({ services, apiKey, params, query }) {
    const { storageKey: key, contentType, filename } = await find(services, apiKey, params.id!)
    const expiresAtMs = services.clock.now() + query.expiry * 3_600_000
    return { url: await services.blobs.signedUrl({ key, contentType, filename }, expiresAtMs) }
  },
})

const deleteFile = endpoint({
  ...shared,
  method: 'delete',
  path: '/v1/files/{id}',
  operationId: 'deleteFile',
  summary: 'Delete a file',
  description: 'Deletes the file immediately. A batch that is reading it continues.',
  answers: {
    200: {
      description: 'The file is deleted.',
      schema: z
        .strictObject({ id: z.string(), object: z.literal('file'), deleted: z.literal(true) })
        .meta({ id: 'DeletedFile' }),
    },
  },
  errors: ['not_found'],
  async handle({ services, apiKey, params }) {
    const { id } = await find(services, apiKey, params.id!)
    await eraseAnswers(services, apiKey.policy.organisationId, id)
    if (!(await services.files.delete(id, apiKey.policy))) throw missing()
    return { id, object: 'file', deleted: true }
  },
})

/** Finds a file visible to the key. Throws 404. */
async function find({ files }: FileServices, { policy }: ResolvedKey, id: string): Promise<File> {
  const found = await files.find(id, policy)
  if (!found) throw missing()
  return found
}

function missing(): GatewayError {
  return new GatewayError('not_found', 'No such file, or it has expired.', { param: 'id' })
}

export const fileRoutes: Endpoint[] = [createFile, listFiles, readFile, readContent, readUrl, deleteFile]
