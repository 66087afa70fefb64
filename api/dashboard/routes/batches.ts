import { text } from 'node:stream/consumers'
import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { type Batch, unfinished } from '../../../shared/batches/batches.ts'
import { cancelBatch } from '../../../shared/batches/cancel.ts'
import type { FileServices } from '../../../shared/files/file-services.ts'
import type { File } from '../../../shared/files/files.ts'
import type { Platform } from '../../../shared/platform.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import { paging, readPage } from '../../routes/paging.ts'
import { presentBatchDetail, presentBatchRow } from '../present/present-batch.ts'
import { assertMayCancel, fileUrlForPage, type Viewer } from '../present/work.ts'
import { readBounds, spanFields } from '../queries/span.ts'
import { findKeyId, readWorkKeys } from '../queries/work.ts'
import type { BatchDetail, BatchErrors, BatchesPage, BatchFileName } from '../wire/batches.ts'

const base = '/dashboard/api/organisations/{organisation}/batches'
const shared = { tag: 'Dashboard', access: { permission: 'use' } } as const
const statuses = [...unfinished, 'completed', 'failed', 'cancelled', 'expired'] as const
/** Bytes of the error file to read for its first lines. */
const previewBytes = 256 * 1024
const previewLines = 50
const maxMessageCharacters = 1_000

const list = endpoint({
  ...shared,
  method: 'get',
  path: base,
  summary: 'List batches, newest first',
  query: z.strictObject({
    limit: paging.limit,
    after: paging.after,
    status: z.enum([...statuses, 'unfinished']).optional(),
    environment: z.enum(['live', 'test']).optional(),
    key: z.string().min(1).max(100).optional().describe('A key’s id or hash.'),
    q: z.string().trim().min(1).max(200).optional().describe('The id of a batch, or of the request that submitted it.'),
    ...spanFields,
    span: spanFields.span.describe('The time up to now. Without it and `from`, batches of any age.'),
  }),
  answers: { 200: { description: 'A page of batches.' } },
  errors: ['not_found'],
  async handle({ services, query, ...viewer }): Promise<BatchesPage> {
    const { organisationId } = viewer
    const { limit, after, status, environment, key, q, ...time } = query
    const where = {
      organisationId,
      ...(status && { status: status === 'unfinished' ? { in: [...unfinished] } : status }),
      ...(environment && { environment }),
      ...(key !== undefined && { keyId: await findKeyId(services, organisationId, key) }),
      createdAt: readBounds(time, services.clock.now()),
      ...(q !== undefined && { OR: [{ id: q }, { requestId: q }] }),
      // Ids are ordered by creation time.
      ...(after !== undefined && { id: { lt: after } }),
    }
    const page = await readPage(
      { limit, order: 'desc' },
      ({ limit: take }) => services.db.batch.findMany({ where, orderBy: { id: 'desc' }, take }),
      async rows => {
        const keys = await readWorkKeys(services, rows)
        return rows.map(row => presentBatchRow(row, viewer, keys))
      },
    )
    return { data: page.data, has_more: page.has_more, last_id: page.last_id as string | null }
  },
})

const read = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/{id}`,
  summary: 'Retrieve a batch',
  answers: { 200: { description: 'The batch.' } },
  errors: ['not_found'],
  async handle({ services, params, ...viewer }): Promise<BatchDetail> {
    return presentBatchDetail(services, viewer, await find(services, viewer, params.id!))
  },
})

const cancel = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{id}/cancel`,
  summary: 'Cancel a batch',
  description: 'Administrators can cancel any batch; members, batches of test keys and of their own keys.',
  answers: { 200: { description: 'The batch, which is being cancelled.' } },
  errors: ['not_found', 'insufficient_role', 'not_cancellable'],
  async handle({ services, params, ...viewer }): Promise<BatchDetail> {
    const batch = await find(services, viewer, params.id!)
    await assertMayCancel(services, viewer, batch)
    return presentBatchDetail(services, viewer, await cancelBatch(services, batch.id))
  },
})

const download = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/{id}/files/{file}`,
  summary: 'Download a file of a batch',
  description: 'Redirects to the `input`, `output` or `errors` file; the URL expires after an hour.',
  answers: { 302: { description: 'The URL of the file.', contentType: null } },
  errors: ['not_found'],
  async handle({ services, params, ctx, ...viewer }) {
    const file = await fileOf(services, await find(services, viewer, params.id!), params.file!)
    const { storageKey: key, contentType, filename } = file
    ctx.redirect(await fileUrlForPage(services, { key, contentType, filename }))
  },
})

const readErrors = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/{id}/errors`,
  summary: 'Preview a batch’s error file',
  answers: { 200: { description: 'The first errors, by line.' } },
  errors: ['not_found'],
  async handle({ services, params, ...viewer }): Promise<BatchErrors> {
    const file = await fileOf(services, await find(services, viewer, params.id!), 'errors')
    const blob = await services.blobs.read(file.storageKey, { start: 0, end: previewBytes - 1 })
    if (!blob) throw new GatewayError('not_found', 'The file no longer exists.')
    const lines = (await text(blob.stream)).split('\n')
    // After the last line feed there is nothing, or a truncated line.
    const whole = lines.slice(0, -1)
    const data = whole.slice(0, previewLines).map(faultOf)
    return { data, has_more: whole.length > data.length || blob.bytes > previewBytes }
  },
})

type ErrorLine = {
  custom_id: string
  response: { status_code: number; body?: { error?: { code?: string | null; message?: string } } } | null
  error: { code: string; message: string } | null
}

/** One line of an error file: the response it got, or the error. */
function faultOf(line: string): BatchErrors['data'][number] {
  const { custom_id, response, error } = JSON.parse(line) as ErrorLine
  const fault = error ?? response?.body?.error
  return {
    custom_id,
    status: response?.status_code ?? null,
    code: fault?.code ?? 'unknown',
    message: (fault?.message ?? '').slice(0, maxMessageCharacters),
  }
}

/** The organisation's batch. Throws 404. */
async function find({ db }: Platform, { organisationId }: Viewer, id: string): Promise<Batch> {
  const batch = await db.batch.findFirst({ where: { id, organisationId } })
  if (!batch) throw new GatewayError('not_found', 'No such batch.', { param: 'id' })
  return batch
}

/** A file of a batch by purpose. Throws 404 if there is none, or if it has expired. */
async function fileOf({ files }: FileServices, batch: Batch, name: string): Promise<File> {
  const ids: Record<BatchFileName, string | null> = {
    input: batch.inputFileId,
    output: batch.outputFileId,
    errors: batch.errorFileId,
  }
  const id = Object.hasOwn(ids, name) ? ids[name as BatchFileName] : null
  const file = id === null ? null : await files.find(id, batch)
  if (!file)
    throw new GatewayError('not_found', 'This batch has no such file, or the file was deleted.', { param: 'file' })
  return file
}

export const batchRoutes: Endpoint[] = [list, read, cancel, download, readErrors]
