import type { Operation, Protocol, ProviderLine, QueuedAdapter, Report } from '../contract.ts'
import { handle, invalid, optionalAmount, optionalNumber, optionalText, refusal, text } from '../fields.ts'
import { completion, noInvoice, pending, videosAt } from '../reports.ts'
import { failure, failureOfTask } from './failure.ts'
import { createRequest } from './request.ts'

/** Runway asks to be asked at most every five seconds. */
const poll = { firstMs: 6_000, mostMs: 15_000 }

const video: QueuedAdapter<'video'> = {
  poll,
  async start(call, line) {
    const { path, json: body } = await createRequest(call)
    const { json } = await line.send({ method: 'POST', path, headers: versionOf(line), json: body })
    return { task: handle(json, 'id') }
  },
  async check(operation, line) {
    const { json } = await line.send({ method: 'GET', path: pathOf(operation), headers: versionOf(line) })
    return reportOf(json)
  },
  async cancel(operation, line) {
    // A task that is over is gone then: 404 is as good.
    await line.send({ method: 'DELETE', path: pathOf(operation), headers: versionOf(line), allow: [404] })
  },
}

/** Runway's API of tasks: videos from text, pictures, videos and performances. It sends no callbacks. */
export const runway: Protocol = { direct: {}, queued: { video }, failure }

function versionOf({ provider }: ProviderLine): Record<string, string> {
  return { 'x-runway-version': String(provider.quirks?.api_version ?? '2024-11-06') }
}

function pathOf({ task }: Operation): string {
  return `/tasks/${task}`
}

function reportOf(json: unknown): Report<'video'> {
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
        () => videosAt(json, 'output', ''),
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
