import type { WorkKind, WorkKinds } from '../../../kinds/index.ts'
import type { Operation, PollReport, Protocol, ProviderConnection, QueuedAdapter, QueuedCall } from '../../contract.ts'
import {
  invalidResponse,
  readHandle,
  readOptionalAmount,
  readOptionalNumber,
  readOptionalText,
  readText,
} from '../../toolkit/json-fields.ts'
import { imageOutput } from '../../toolkit/model-output.ts'
import { completedReport, noInvoice, pendingReport, videosAt } from '../../toolkit/poll-reports.ts'
import { refusal } from '../../toolkit/refusal.ts'
import { failure, failureOfTask } from './failure.ts'
import { imageRequest } from './images.ts'
import { createRequest } from './request.ts'

/** Runway's minimum polling interval is five seconds. */
const queuedPolling = { firstMs: 6_000, maxMs: 15_000 }
/** For synchronous requests. */
const syncPolling = { firstMs: 5_000, maxMs: 6_000 }

/** Runway's task API: images, and videos from text, pictures, videos and performances. It sends no callbacks. */
export const runway: Protocol = {
  direct: {},
  queued: { video: adapter(createRequest, json => videosAt(json, 'output', ''), queuedPolling) },
  synchronous: {
    image: { ...adapter(imageRequest, json => imageOutput(json, 'output'), syncPolling), maxPieces: () => 1 },
  },
  credentialCheck: provider => ({ path: '/organization', headers: versionOf({ provider }) }),
  failure,
}

function adapter<K extends WorkKind>(
  requestOf: (call: QueuedCall<K>) => Promise<{ path: string; json: object }>,
  read: (json: unknown) => WorkKinds[K]['output'],
  poll: QueuedAdapter<K>['poll'],
): QueuedAdapter<K> {
  return {
    poll,
    async start(call, connection) {
      const { path, json: body } = await requestOf(call)
      const { json } = await connection.send({ method: 'POST', path, headers: versionOf(connection), json: body })
      return { task: readHandle(json, 'id') }
    },
    async check(operation, connection) {
      const { json } = await connection.send({ method: 'GET', path: pathOf(operation), headers: versionOf(connection) })
      return reportOf(json, read)
    },
    async cancel(operation, connection) {
      // An ended task is deleted: 404 counts as success.
      await connection.send({ method: 'DELETE', path: pathOf(operation), headers: versionOf(connection), allow: [404] })
    },
  }
}

function versionOf({ provider }: Pick<ProviderConnection, 'provider'>): Record<string, string> {
  return { 'x-runway-version': provider.quirks?.api_version ?? '2024-11-06' }
}

function pathOf({ task }: Operation): string {
  return `/tasks/${task}`
}

function reportOf<K extends WorkKind>(json: unknown, read: (json: unknown) => WorkKinds[K]['output']): PollReport<K> {
  const status = readText(json, 'status')
  switch (status) {
    case 'PENDING':
    case 'THROTTLED':
      return pendingReport()
    case 'RUNNING': {
      const share = readOptionalNumber(json, 'progress')
      return pendingReport(share === null ? null : share * 100)
    }
    case 'SUCCEEDED':
      return completedReport(
        () => read(json),
        () => ({ ...noInvoice, credits: readOptionalAmount(json, 'cost.credits') }),
      )
    case 'FAILED':
      return {
        status: 'failed',
        error: failureOfTask(readOptionalText(json, 'failureCode'), readOptionalText(json, 'failure')),
      }
    case 'CANCELLED':
      return { status: 'failed', error: refusal('server_error', 'The provider cancelled the task.') }
    default:
      throw invalidResponse('its `status` is unknown')
  }
}
