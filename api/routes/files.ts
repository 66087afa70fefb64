import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { newId } from '../../shared/base/ids.ts'
import { dayMs, unixSeconds } from '../../shared/base/time.ts'
import type { FileServices } from '../../shared/files/file-services.ts'
import { type File, publicPurposes, retainedForJobsMs, type StoredFile } from '../../shared/files/files.ts'
import { closeBody, limitBytes, peek } from '../../shared/io/bytes.ts'
import { inlineDisposition } from '../../shared/io/disposition.ts'
import { sniffedBytes, sniffType } from '../../shared/io/media/media-type.ts'
import type { ResolvedKey } from '../../shared/keys/policies.ts'
import { admitFree } from '../auth/api-keys.ts'
import { parseFields } from '../body/form.ts'
import type { FilePart } from '../body/multipart.ts'
import { type Endpoint, endpoint, type Form } from '../endpoint.ts'
import { page } from '../schemas/core.ts'
import { type Page, paging, readPage } from './paging.ts'
import { rangeHeader, sendStoredFile, storedFileAnswers } from './send-stored-file.ts'

const mib = 1024 * 1024
const maxMib = 200
const contentType = 'application/jsonl'
const shared = { tag: 'Files', access: { scope: '*' } } as const

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
  })
  .meta({ id: 'FileObject' })

function present({ id, bytes, createdAt, expiresAt, filename, purpose }: File) {
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
  }
}

const anchor = 'expires_after[anchor]'
const life = 'expires_after[seconds]'
const newFile = z
  .strictObject({
    purpose: z
      .literal('batch', 'must be `batch`: only input files of batches are supported')
      .describe('Only input files of batches are supported.'),
    [anchor]: z
      .literal('created_at', 'must be `created_at`')
      .optional()
      .describe('The anchor of `expires_after[seconds]`.'),
    [life]: z.int().min(3_600).max(2_592_000).optional().describe('Replaces the default of 30 days.'),
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
 * Stores a possible batch input; only batch validation reads the lines. It is stored as an upload until the whole form
 * is validated, as clients may send the file first. Throws a GatewayError: 400 if it is empty or not text, 413 at the
 * first byte beyond the limit.
 */
async function storeJsonl(
  { files, clock }: FileServices,
  { policy: { organisationId, environment } }: ResolvedKey,
  { filename, body: sent }: FilePart,
): Promise<StoredFile> {
  const { head, body } = await peek(sent, sniffedBytes)
  try {
    if (head.length === 0) throw new GatewayError('invalid_request', 'The file is empty.')
    const type = head[0] === '{'.charCodeAt(0) ? null : await sniffType(head)
    if (type !== null) {
      const needed = 'Send JSON Lines: one request per line, as uncompressed UTF-8 text.'
      throw new GatewayError('invalid_request', `The file is ${type}. ${needed}`)
    }
    return await files.store(limitBytes(body, maxMib * mib, tooLarge), {
      organisationId,
      environment,
      purpose: 'upload',
      id: newId('file'),
      filename: filename || 'batch.jsonl',
      contentType,
      expiresAtMs: clock.now() + retainedForJobsMs,
    })
  } finally {
    await closeBody(body)
  }
}

function tooLarge(): GatewayError {
  return new GatewayError('file_too_large', `The file is larger than ${maxMib} MiB. Split it into several batches.`, {
    headers: { connection: 'close' },
  })
}

const form: Form = {
  files: [{ name: 'file', required: true, description: `JSON Lines: one request per line, ${maxMib} MiB at most.` }],
  only: true,
  free: true,
  example: { file: 'requests.jsonl', purpose: 'batch' },
  store: storeJsonl,
  toBody: fields => parseFields(fields, { numbers: [life] }),
}

const createFile = endpoint({
  ...shared,
  method: 'post',
  path: '/v1/files',
  operationId: 'createFile',
  summary: 'Upload a file',
  description: `Uploads a JSON Lines file of at most ${maxMib} MiB for a batch, which validates its lines. Kept for 30 days unless \`expires_after\` is set.`,
  body: newFile,
  form,
  answers: { 200: { description: 'The file.', schema: file } },
  async handle({ services: { files, config }, uploads, body: { [life]: lifeS }, keep }) {
    const { fileId } = uploads[0]!.file
    const lifeMs = lifeS === undefined ? config.fileRetentionDays * dayMs : lifeS * 1_000
    return present(await files.publishWith(fileId, 'batch', lifeMs, (tx, file) => keep(tx, present(file))))
  },
})

const listFiles = endpoint({
  ...shared,
  method: 'get',
  path: '/v1/files',
  operationId: 'listFiles',
  summary: 'List files',
  description:
    'Lists input and output files of batches. Test keys see files of test keys, live keys those of live keys.',
  query: z.strictObject({
    ...paging,
    purpose: z.string().max(64).optional().describe('Filter by purpose.'),
  }),
  answers: { 200: { description: 'A page of files.', schema: page(file, 'FileList') } },
  async handle({ services, apiKey, query, ctx }) {
    ctx.set(await admitFree(services, apiKey))
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
  async handle({ services, apiKey, params, ctx }) {
    ctx.set(await admitFree(services, apiKey))
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
    200: { ...storedFileAnswers[200], contentType },
    206: { ...storedFileAnswers[206], contentType },
  },
  errors: ['not_found'],
  async handle({ services, apiKey, params, ctx }) {
    ctx.set(await admitFree(services, apiKey))
    const { storageKey: key, bytes, filename } = await find(services, apiKey, params.id!)
    ctx.set('content-disposition', inlineDisposition(filename))
    await sendStoredFile(ctx, services.blobs, { key, bytes: Number(bytes), contentType })
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
  async handle({ services, apiKey, params, ctx }) {
    ctx.set(await admitFree(services, apiKey))
    const id = params.id!
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

export const fileRoutes: Endpoint[] = [createFile, listFiles, readFile, readContent, deleteFile]
