import { isObject } from '../../../base/is-object.ts'
import type { WorkKind } from '../../../kinds/index.ts'
import type {
  Operation,
  PollReport,
  Protocol,
  ProviderAnswer,
  ProviderConnection,
  QueuedAdapter,
} from '../../contract.ts'
import { ProviderError } from '../../provider-error.ts'
import { mapErrorParam, withParam } from '../../toolkit/error-param.ts'
import {
  invalidResponse,
  readHandle,
  readOptionalAmount,
  readOptionalText,
  readText,
  valueAt,
} from '../../toolkit/json-fields.ts'
import { type BuildInput, modelAdapters, queuedPolling, type ReadOutput } from '../../toolkit/model-adapters.ts'
import { avatarInput } from '../../toolkit/model-input.ts'
import { maxResultBytes, secondsOf, videoOutput } from '../../toolkit/model-output.ts'
import { completedReport, pendingReport } from '../../toolkit/poll-reports.ts'
import { verify } from './callback.ts'
import { failure, failureOfWork, modelFieldOf } from './failure.ts'

const options = {
  inlineBytes: 10 * 1024 * 1024,
  sizeNames: {
    '1:1': 'square_hd',
    '4:3': 'landscape_4_3',
    '3:4': 'portrait_4_3',
    '16:9': 'landscape_16_9',
    '9:16': 'portrait_16_9',
  },
}
const adapters = modelAdapters(adapter, options)

/**
 * fal's queue (docs.fal.ai/model-apis): one interface to a thousand models, whose fields are named by the deployment's
 * traits (../model-fields.ts). `output_field` names the main file where its name is not common. A price in credits is
 * per billable unit of the endpoint. Callbacks are signed with keys published at the quirk `jwks_url`.
 */
export const fal: Protocol = {
  direct: {},
  queued: { ...adapters.queued, avatar: adapter(call => avatarInput(call, options), videoOutput) },
  synchronous: adapters.synchronous,
  verify,
  failure,
}

/** Prefix of the operation's entries that map a model's field to ours. */
const fieldPrefix = 'field:'

function adapter<K extends WorkKind>(
  buildInput: BuildInput<K>,
  readOutput: ReadOutput<K>,
  poll = queuedPolling,
): QueuedAdapter<K> {
  return {
    poll,
    async start(call, connection) {
      const { model, input, params } = await buildInput(call)
      const query = call.callbackUrl ? `?fal_webhook=${encodeURIComponent(call.callbackUrl)}` : ''
      const { json } = await mapErrorParam(
        params,
        connection.send({ method: 'POST', path: `/${model}${query}`, json: input }),
        modelFieldOf,
      )
      return {
        app: appOf(model),
        request: readHandle(json, 'request_id'),
        output: call.target.deployment.traits?.output_field ?? null,
        ...Object.fromEntries(Object.entries(params).map(([name, param]) => [fieldPrefix + name, param])),
      }
    },
    check: (operation, connection) => check(operation, connection, readOutput),
    async cancel(operation, connection) {
      // 400 = already completed, 404 = gone: nothing to cancel.
      await connection.send({ method: 'PUT', path: `${pathOf(operation)}/cancel`, allow: [400, 404] })
    },
  }
}

/** The queue's name of a model: two segments of its name, three in a namespace. */
function appOf(model: string): string {
  const segments = model.split('/')
  return segments.slice(0, ['workflows', 'comfy'].includes(segments[0]!) ? 3 : 2).join('/')
}

function pathOf({ app, request }: Operation): string {
  return `/${app}/requests/${request}`
}

/** Final statuses of the model itself; the others concern the poll, unless the queue says that the work failed. */
const finalStatuses = [400, 405, 406, 409, 410, 413, 415, 422, 424, 451, 499, 500, 502, 503, 504]

async function check<K extends WorkKind>(
  operation: Operation,
  connection: ProviderConnection,
  readOutput: ReadOutput<K>,
): Promise<PollReport<K>> {
  const { json } = await connection.send({ method: 'GET', path: `${pathOf(operation)}/status` })
  const status = readText(json, 'status')
  if (status === 'IN_QUEUE' || status === 'IN_PROGRESS') return pendingReport()
  if (status !== 'COMPLETED') throw invalidResponse('it has an unknown `status`')
  // Completed only means ended: the result is the model's response with its own status.
  const failed = failureOfWork(json)
  const request = { method: 'GET', path: pathOf(operation), allow: finalStatuses, maxBytes: maxResultBytes } as const
  const result = await connection.send(request).catch(error => {
    if (failed && error instanceof ProviderError && error.status !== null) return null
    throw error
  })
  if (!result) return { status: 'failed', error: failed! }
  if (result.status > 299) return failureReport(result, operation, failed !== null)
  if (!isObject(result.json)) throw invalidResponse('its result is not an object')
  return completedReport(
    () => readOutput(result.json, readOptionalText(operation, 'output')),
    output => ({ seconds: secondsOf(output), credits: readOptionalAmount(result.headers, 'x-fal-billable-units') }),
  )
}

function paramAt(operation: Operation, name: string | null): string | null {
  const param = operation[`${fieldPrefix}${name}`]
  return param === undefined ? null : String(param)
}

/** Work that ended without a result. A queue failure looks similar, but implies nothing about the request. */
function failureReport(answer: ProviderAnswer, operation: Operation, isKnown: boolean): PollReport<never> {
  const { status, headers, text, json } = answer
  const location = readOptionalText(json, 'detail.0.loc.1')
  const error = withParam(failure(status, headers, text), paramAt(operation, location))
  if (!isKnown && !isVerdict(answer)) throw error
  return { status: 'failed', error }
}

/** Whether a response is the model's or its runner's: fal types their errors. A plain 5xx may be a proxy's. */
function isVerdict({ status, headers, json }: ProviderAnswer): boolean {
  if (status < 500 || headers['x-fal-error-type'] !== undefined) return true
  if (valueAt(json, 'error_type') !== undefined || valueAt(json, 'detail.0.type') !== undefined) return true
  return status === 500 && valueAt(json, 'detail') !== undefined
}
