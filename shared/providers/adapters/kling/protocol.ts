import type { Operation, PollReport, Protocol, ProviderAnswer, QueuedAdapter } from '../../contract.ts'
import {
  invalidResponse,
  readHandle,
  readOptionalAmount,
  readOptionalNumber,
  readOptionalText,
  readText,
} from '../../toolkit/json-fields.ts'
import { completedReport, noInvoice, pendingReport, videosAt } from '../../toolkit/poll-reports.ts'
import { failure, failureOfTask, isNotFound } from './failure.ts'
import { createBody, routeOf } from './request.ts'

const poll = { firstMs: 6_000, maxMs: 15_000 }
const videos = 'data.task_result.videos'

const video: QueuedAdapter<'video'> = {
  poll,
  async start(call, connection) {
    const body = await createBody(call)
    const route = routeOf(call)
    return operationOf(route, unwrap(await connection.send({ method: 'POST', path: `/videos/${route}`, json: body })))
  },
  async check({ route, task }, connection) {
    return reportOf(unwrap(await connection.send({ method: 'GET', path: `/videos/${route}/${task}` })))
  },
  /** `external_task_id` is unique per account: it finds the task, and a duplicate is rejected. */
  async find(call, connection) {
    const route = routeOf(call)
    const answer = await connection.send({ method: 'GET', path: `/videos/${route}/${call.jobId}`, allow: [400, 404] })
    if (isNotFound(answer.json)) return null
    const json = unwrap(answer)
    if (readText(json, 'data.task_info.external_task_id') !== call.jobId)
      throw invalidResponse('another task than the one asked for')
    return operationOf(route, json)
  },
}

/** Kling's own API. Its callbacks are not signed, so tasks are only polled; it has no cancellation. */
export const kling: Protocol = { direct: {}, queued: { video }, failure }

/** The JSON of an envelope whose `code` is 0. */
function unwrap({ status, headers, text: body, json }: ProviderAnswer): unknown {
  if (readOptionalNumber(json, 'code') !== 0) throw failure(status, headers, body)
  return json
}

function operationOf(route: string, json: unknown): Operation {
  return { route, task: readHandle(json, 'data.task_id') }
}

function reportOf(json: unknown): PollReport<'video'> {
  const status = readText(json, 'data.task_status')
  switch (status) {
    case 'submitted':
    case 'processing':
      return pendingReport()
    case 'succeed':
      return completedReport(
        () => videosAt(json, videos, 'url', readOptionalAmount(json, `${videos}.0.duration`)),
        () => ({ ...noInvoice, credits: readOptionalAmount(json, 'data.final_unit_deduction') }),
      )
    case 'failed':
      return { status: 'failed', error: failureOfTask(readOptionalText(json, 'data.task_status_msg')) }
    default:
      throw invalidResponse('its `data.task_status` is unknown')
  }
}
