import type { Deployment } from '../../../catalog/schema.ts'
import type { WorkKind, WorkKinds } from '../../../kinds/index.ts'
import type { PollReport, Protocol, ProviderCallback, ProviderConnection, QueuedAdapter } from '../../contract.ts'
import { isStandardWebhook } from '../../toolkit/callback-signatures.ts'
import { mapErrorParam } from '../../toolkit/error-param.ts'
import {
  invalidResponse,
  readHandle,
  readOptionalAmount,
  readOptionalText,
  readText,
  valueAt,
} from '../../toolkit/json-fields.ts'
import { type BuildInput, modelAdapters, queuedPolling, type ReadOutput } from '../../toolkit/model-adapters.ts'
import { maxResultBytes, secondsOf } from '../../toolkit/model-output.ts'
import { completedReport, pendingReport } from '../../toolkit/poll-reports.ts'
import { refusal } from '../../toolkit/refusal.ts'
import { failure, modelFieldOf, reasonOfText } from './failure.ts'

/** Replicate recommends URLs for files above this size. */
const options = { inlineBytes: 256 * 1024 }
const adapters = modelAdapters(adapter, options)

/**
 * Replicate's predictions (replicate.com/docs/reference/http): one interface to any model, whose fields are named by
 * the deployment's traits (../model-fields.ts). `upstream_model` is `owner/name`, `owner/name:version`, or with the
 * trait `deployment` a deployment's `owner/name`. `output_field` names the main file of an output that is an object. A
 * price in credits is per second of `predict_time`.
 */
export const replicate: Protocol = {
  direct: {},
  ...adapters,
  verify,
  credentialCheck: () => ({ path: '/account' }),
  failure,
}

function adapter<K extends WorkKind>(
  buildInput: BuildInput<K>,
  readOutput: ReadOutput<K>,
  poll = queuedPolling,
): QueuedAdapter<K> {
  return {
    poll,
    async start(call, connection) {
      const { traits } = call.target.deployment
      const { model, input, params } = await buildInput(call)
      const { path, version } = routeOf(model, traits)
      const callback = call.callbackUrl && { webhook: call.callbackUrl, webhook_events_filter: ['completed'] }
      const body = { ...version, ...callback, input }
      const { json } = await mapErrorParam(params, connection.send({ method: 'POST', path, json: body }), modelFieldOf)
      return { id: readHandle(json, 'id'), output: traits?.output_field ?? null }
    },
    async check({ id, output }, connection) {
      const { json } = await connection.send({ method: 'GET', path: `/predictions/${id}`, maxBytes: maxResultBytes })
      return reportOf(json, part => readOutput(part, output === null ? null : String(output)))
    },
    async cancel({ id }, connection) {
      await connection.send({ method: 'POST', path: `/predictions/${id}/cancel` })
    },
  }
}

function routeOf(model: string, traits: Deployment['traits']): { path: string; version?: { version: string } } {
  const [name, version] = model.split(':')
  if (version) return { path: '/predictions', version: { version } }
  return { path: `/${traits?.deployment ? 'deployments' : 'models'}/${name}/predictions` }
}

function reportOf<K extends WorkKind>(json: unknown, read: (output: unknown) => WorkKinds[K]['output']): PollReport<K> {
  const status = readText(json, 'status')
  switch (status) {
    case 'starting':
    case 'processing':
      return pendingReport()
    case 'succeeded':
      return completedReport(
        () => {
          if (valueAt(json, 'data_removed') === true) throw invalidResponse('its files were removed already')
          return read(valueAt(json, 'output'))
        },
        output => ({ seconds: secondsOf(output), credits: readOptionalAmount(json, 'metrics.predict_time') }),
      )
    case 'failed': {
      const message = readOptionalText(json, 'error') ?? ''
      return { status: 'failed', error: refusal(reasonOfText(message), message) }
    }
    case 'canceled':
    case 'aborted':
      return { status: 'failed', error: refusal('server_error', `The provider reports the work as ${status}.`) }
    default:
      throw invalidResponse('it has an unknown `status`')
  }
}

/** Standard Webhooks with the account's secret, which the API returns if the configuration does not set it. */
async function verify({ headers, raw, nowMs, secret, connection, remember }: ProviderCallback): Promise<boolean> {
  const key = secret ?? (await remember('webhook_secret', () => accountSecret(connection)))
  return isStandardWebhook(headers, raw, key, nowMs)
}

async function accountSecret(connection: ProviderConnection): Promise<string> {
  const { json } = await connection.send({ method: 'GET', path: '/webhooks/default/secret' })
  return readText(json, 'key')
}
