import type { WorkKind, WorkKinds } from '../../kinds/index.ts'
import type { Operation, Protocol, ProviderLine, QueuedAdapter, QueuedCall, Report } from '../contract.ts'
import { handle, invalid, optionalAmount, optionalNumber, optionalText, refusal, text } from '../fields.ts'
import { imageOutput } from '../model-output.ts'
import { completion, noInvoice, pending, videosAt } from '../reports.ts'
import { failure, failureOfTask } from './failure.ts'
import { imageRequest } from './images.ts'
import { createRequest } from './request.ts'

/** Runway asks to be asked at most every five seconds. */
const slow = { firstMs: 6_000, mostMs: 15_000 }
/** For somebody who waits. */
const quick = { firstMs: 5_000, mostMs: 6_000 }

/** Runway's API of tasks: images, and videos from text, pictures, videos and performances. It sends no callbacks. */
export const runway: Protocol = {
  direct: {},
  queued: { video: adapter(createRequest, json => videosAt(json, 'output', ''), slow) },
  instant: { image: { ...adapter(imageRequest, json => imageOutput(json, 'output'), quick), mostPieces: () => 1 } },
  failure,
}

function adapter<K extends WorkKind>(
  requestOf: (call: QueuedCall<K>) => Promise<{ path: string; json: object }>,
  read: (json: unknown) => WorkKinds[K]['output'],
  poll: QueuedAdapter<K>['poll'],
): QueuedAdapter<K> {
  return {
    poll,
    async start(call, line) {
      const { path, json: body } = await requestOf(call)
      const { json } = await line.send({ method: 'POST', path, headers: versionOf(line), json: body })
      return { task: handle(json, 'id') }
    },
    async check(operation, line) {
      const { json } = await line.send({ method: 'GET', path: pathOf(operation), headers: versionOf(line) })
      return reportOf(json, read)
    },
    async cancel(operation, line) {
      // A task that is over is gone then: 404 is as good.
      await line.send({ method: 'DELETE', path: pathOf(operation), headers: versionOf(line), allow: [404] })
    },
  }
}

function versionOf({ provider }: ProviderLine): Record<string, string> {
  return { 'x-runway-version': String(provider.quirks?.api_version ?? '2024-11-06') }
}

function pathOf({ task }: Operation): string {
  return `/tasks/${task}`
}

function reportOf<K extends WorkKind>(json: unknown, read: (json: unknown) => WorkKinds[K]['output']): Report<K> {
  const status = text(json, 'status')
  switch (status) {
    case 'PENDING':
    case 'THROTTLED':
      return pending()
    case 'RUNNING': {
      const share = optionalNumber(json, 'progress')
      return pending(share === null ? null : share * 100)
    }
    case 'SUCCEEDED':
      return completion(
        () => read(json),
        () => ({ ...noInvoice, credits: optionalAmount(json, 'cost.credits') }),
      )
    case 'FAILED':
      return {
        status: 'failed',
        error: failureOfTask(optionalText(json, 'failureCode'), optionalText(json, 'failure')),
      }
    case 'CANCELLED':
      return { status: 'failed', error: refusal('server_error', 'The provider cancelled the task.') }
    default:
      throw invalid('its `status` is unknown')
  }
}
