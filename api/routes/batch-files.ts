import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { newId } from '../../shared/base/ids.ts'
import { dayMs, unixSeconds } from '../../shared/base/time.ts'
import { atMost, close, peek } from '../../shared/io/bytes.ts'
import { inline } from '../../shared/io/disposition.ts'
import { sniffedBytes, sniffType } from '../../shared/io/media-type.ts'
import { type File, keptForJobsMs, type StoredFile, shownPurposes } from '../../shared/jobs/files.ts'
import type { Known } from '../../shared/keys/policies.ts'
import type { Services } from '../../shared/services.ts'
import { page } from '../answers.ts'
import { type Endpoint, endpoint, type Form } from '../endpoint.ts'
import { typed } from '../middleware/form.ts'
import { admitFree } from '../middleware/key.ts'
import type { FilePart } from '../middleware/multipart.ts'
import { rangeHeader, sendStored, storedAnswers } from '../middleware/stored.ts'
import { type Page, pageOf, paging } from './paging.ts'

const mib = 1024 * 1024
const mostMib = 200
const contentType = 'application/jsonl'
const shared = { tag: 'Files', access: { scope: '*' } } as const

const file = z
  .strictObject({
    id: z.string(),
    object: z.literal('file'),
    bytes: z.int(),
    created_at: z.int().describe('Unix seconds.'),
    expires_at: z.int().describe('Unix seconds; the file is deleted then.'),
    filename: z.string(),
    purpose: z.enum(shownPurposes),
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
      .literal('batch', 'must be `batch`: files are the input of batches here')
      .describe('Files are the input of batches here.'),
    [anchor]: z
      .literal('created_at', 'must be `created_at`')
      .optional()
      .describe('What `expires_after[seconds]` counts from.'),
    [life]: z.int().min(3_600).max(2_592_000).optional().describe('In place of the usual 30 days.'),
  })
  .check(({ value, issues }) => {
    for (const [one, other] of [
      [anchor, life],
      [life, anchor],
    ] as const)
      if (value[one] !== undefined && value[other] === undefined)
        issues.push({ code: 'custom', path: [other], input: undefined, message: `is required beside \`${one}\`` })
  })
  .meta({ id: 'CreateFileRequest', dependentRequired: { [anchor]: [life], [life]: [anchor] } })

/**
 * Stores what may be a batch's input; only its validation reads the lines. An upload until the whole form is known to be right,
 * as clients may send the file first. Throws a GatewayError: 400 when it is empty or no text, 413 at the first byte over.
 */
async function storeJsonl(
  { files, clock }: Services,
  { policy: { organisationId, environment } }: Known,
  { filename, body: sent }: FilePart,
): Promise<StoredFile> {
  const { head, body } = await peek(sent, sniffedBytes)
  try {
    if (head.length === 0) throw new GatewayError('invalid_request', 'The file is empty.')
    const type = head[0] === '{'.charCodeAt(0) ? null : await sniffType(head)
    if (type !== null) {
      const needed = 'Send JSON Lines: one request per line, as UTF-8 text that is not compressed.'
      throw new GatewayError('invalid_request', `The file is ${type}. ${needed}`)
    }
    return await files.store(atMost(body, mostMib * mib, tooLarge), {
      organisationId,
      environment,
      purpose: 'upload',
      id: newId('file'),
      filename: filename || 'batch.jsonl',
      contentType,
      expiresAtMs: clock.now() + keptForJobsMs,
    })
  } finally {
    await close(body)
  }
}

function tooLarge(): GatewayError {
  return new GatewayError('file_too_large', `The file is larger than ${mostMib} MiB. Split it into several batches.`, {
    headers: { connection: 'close' },
  })
}

const form: Form = {
  files: [{ name: 'file', required: true, description: `JSON Lines: one request per line, ${mostMib} MiB at most.` }],
  only: true,
  free: true,
  example: { file: 'requests.jsonl', purpose: 'batch' },
  store: storeJsonl,
  toBody: fields => typed(fields, { numbers: [life] }),
}

const createFile = endpoint({
  ...shared,
  method: 'post',
  path: '/v1/files',
  operationId: 'createFile',
  summary: 'Upload a file',
  description: `A JSON Lines file of at most ${mostMib} MiB; the batch checks its lines. Kept for 30 days unless \`expires_after\` says otherwise.`,
  body: newFile,
  form,
  answers: { 200: { description: 'The file is stored.', schema: file } },
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
  description: 'The inputs and outputs of batches. Test keys see the files of test keys, live keys those of live ones.',
  query: z.strictObject({
    ...paging,
    purpose: z.string().max(64).optional().describe('Only files of this purpose.'),
  }),
  answers: { 200: { description: 'A page of files.', schema: page(file, 'FileList') } },
  async handle({ services, known, query, ctx }) {
    ctx.set(await admitFree(services, known))
    const { purpose } = query
    const read = (page: Page) =>
      services.files.list(known.policy, { ...page, ...(purpose !== undefined && { purpose }) })
    return pageOf(query, read, async rows => rows.map(present))
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
  async handle({ services, known, params, ctx }) {
    ctx.set(await admitFree(services, known))
    return present(await find(services, known, params.id!))
  },
})

const readContent = endpoint({
  ...shared,
  method: 'get',
  path: '/v1/files/{id}/content',
  operationId: 'getFileContent',
  summary: 'Retrieve the content of a file',
  headers: [rangeHeader],
  answers: {
    ...storedAnswers,
    200: { ...storedAnswers[200], contentType },
    206: { ...storedAnswers[206], contentType },
  },
  errors: ['not_found'],
  async handle({ services, known, params, ctx }) {
    ctx.set(await admitFree(services, known))
    const { storageKey: key, bytes, filename } = await find(services, known, params.id!)
    ctx.set('content-disposition', inline(filename))
    await sendStored(ctx, services.blobs, { key, bytes: Number(bytes), contentType })
  },
})

const deleteFile = endpoint({
  ...shared,
  method: 'delete',
  path: '/v1/files/{id}',
  operationId: 'deleteFile',
  summary: 'Delete a file',
  description: 'It is gone at once. A batch that reads it goes on.',
  answers: {
    200: {
      description: 'The file is deleted.',
      schema: z
        .strictObject({ id: z.string(), object: z.literal('file'), deleted: z.literal(true) })
        .meta({ id: 'DeletedFile' }),
    },
  },
  errors: ['not_found'],
  async handle({ services, known, params, ctx }) {
    ctx.set(await admitFree(services, known))
    const id = params.id!
    if (!(await services.files.delete(id, known.policy))) throw missing()
    return { id, object: 'file', deleted: true }
  },
})

/** A file that the key sees. Throws 404. */
async function find({ files }: Services, { policy }: Known, id: string): Promise<File> {
  const found = await files.find(id, policy)
  if (!found) throw missing()
  return found
}

function missing(): GatewayError {
  return new GatewayError('not_found', 'There is no such file, or it has expired.', { param: 'id' })
}

export const batchFileRoutes: Endpoint[] = [createFile, listFiles, readFile, readContent, deleteFile]
