import type { Operation, Protocol, ProviderAnswer, QueuedAdapter, Report } from '../contract.ts'
import { handle, invalid, optionalAmount, optionalNumber, optionalText, text } from '../fields.ts'
import { completion, noInvoice, pending, videosAt } from '../reports.ts'
import { failure, failureOfTask, isNotFound } from './failure.ts'
import { createBody, routeOf } from './request.ts'

const poll = { firstMs: 6_000, mostMs: 15_000 }
const videos = 'data.task_result.videos'

const video: QueuedAdapter<'video'> = {
  poll,
  async start(call, line) {
    const body = await createBody(call)
    const route = routeOf(call)
    return operationOf(route, opened(await line.send({ method: 'POST', path: `/videos/${route}`, json: body })))
  },
  async check({ route, task }, line) {
    return reportOf(opened(await line.send({ method: 'GET', path: `/videos/${route}/${task}` })))
  },
  /** `external_task_id` is unique in an account: it finds the task, and a second one with it is refused. */
  async find(call, line) {
    const route = routeOf(call)
    const answer = await line.send({ method: 'GET', path: `/videos/${route}/${call.jobId}`, allow: [400, 404] })
    if (isNotFound(answer.json)) return null
    const json = opened(answer)
    if (text(json, 'data.task_info.external_task_id') !== call.jobId)
      throw invalid('another task than the one asked for')
    return operationOf(route, json)
  },
}

/** Kling's own API. Its callbacks are not signed, so tasks are only looked at; it has no way to cancel. */
export const kling: Protocol = { direct: {}, queued: { video }, failure }

/** The JSON of an envelope whose `code` is 0. */
function opened({ status, headers, text: body, json }: ProviderAnswer): unknown {
  if (optionalNumber(json, 'code') !== 0) throw failure(status, headers, body)
  return json
}

function operationOf(route: string, json: unknown): Operation {
  return { route, task: handle(json, 'data.task_id') }
}

function reportOf(json: unknown): Report<'video'> {
  const status = text(json, 'data.task_status')
  switch (status) {
    case 'submitted':
    case 'processing':
      return pending()
    case 'succeed':
      return completion(
        () => videosAt(json, videos, 'url', optionalAmount(json, `${videos}.0.duration`)),
        () => ({ ...noInvoice, credits: optionalAmount(json, 'data.final_unit_deduction') }),
      )
    case 'failed':
      return { status: 'failed', error: failureOfTask(optionalText(json, 'data.task_status_msg')) }
    default:
      throw invalid('its `data.task_status` is unknown')
  }
}
