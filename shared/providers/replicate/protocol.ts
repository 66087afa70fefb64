import type { Deployment } from '../../catalog/schema.ts'
import type { WorkKind, WorkKinds } from '../../kinds/index.ts'
import type { Callback, Protocol, ProviderLine, QueuedAdapter, QueuedCall, Report } from '../contract.ts'
import { at, handle, invalid, optionalAmount, optionalText, refusal, text } from '../fields.ts'
import type { ModelInput } from '../model-fields.ts'
import { faceSwapInput, lipsyncInput, meshInput, videoInput } from '../model-input.ts'
import { imageInput, mostPieces, musicInput, sfxInput } from '../model-instant-input.ts'
import { imageOutput, meshOutput, mostResultBytes, secondsOf, soundOutput, videoOutput } from '../model-output.ts'
import { named } from '../param.ts'
import { completion, pending } from '../reports.ts'
import { isStandardWebhook } from '../signatures.ts'
import { failure, placeOf, reasonOfText } from './failure.ts'

/** Replicate asks for addresses of files above this size. */
const options = { inlineBytes: 256 * 1024 }
const slow = { firstMs: 2_000, mostMs: 10_000 }
/** For somebody who waits. */
const quick = { firstMs: 300, mostMs: 2_000 }

/**
 * Replicate's predictions (replicate.com/docs/reference/http): one way to run any model, whose fields are named by the
 * deployment's traits (../model-fields.ts). `upstream_model` is `owner/name`, `owner/name:version`, or with the trait
 * `deployment` a deployment's `owner/name`. `output_field` names the main file of an output that is an object. A price in
 * credits is per second of `predict_time`.
 */
export const replicate: Protocol = {
  direct: {},
  queued: {
    video: adapter(call => videoInput(call, options), videoOutput),
    lipsync: adapter(call => lipsyncInput(call, options), videoOutput),
    face_swap: adapter(call => faceSwapInput(call, options), videoOutput),
    mesh: adapter(call => meshInput(call, options), meshOutput),
  },
  instant: {
    image: { ...adapter(call => imageInput(call, options), imageOutput, quick), mostPieces },
    music: adapter(call => musicInput(call, options), soundOutput, quick),
    sfx: adapter(call => sfxInput(call, options), soundOutput, quick),
  },
  verify,
  failure,
}

function adapter<K extends WorkKind>(
  mapped: (call: QueuedCall<K>) => Promise<ModelInput>,
  outputOf: (json: unknown, field: string | null) => WorkKinds[K]['output'],
  poll = slow,
): QueuedAdapter<K> {
  return {
    poll,
    async start(call, line) {
      const { traits } = call.target.deployment
      const { model, input, params } = await mapped(call)
      const { path, version } = routeOf(model, traits)
      const callback = call.callbackUrl && { webhook: call.callbackUrl, webhook_events_filter: ['completed'] }
      const body = { ...version, ...callback, input }
      const { json } = await named(params, line.send({ method: 'POST', path, json: body }), placeOf)
      const field = traits?.output_field
      return { id: handle(json, 'id'), output: field === undefined ? null : String(field) }
    },
    async check({ id, output }, line) {
      const { json } = await line.send({ method: 'GET', path: `/predictions/${id}`, mostBytes: mostResultBytes })
      return reportOf(json, part => outputOf(part, output === null ? null : String(output)))
    },
    async cancel({ id }, line) {
      await line.send({ method: 'POST', path: `/predictions/${id}/cancel` })
    },
  }
}

function routeOf(model: string, traits: Deployment['traits']): { path: string; version?: { version: string } } {
  const [name, version] = model.split(':')
  if (version) return { path: '/predictions', version: { version } }
  return { path: `/${traits?.deployment ? 'deployments' : 'models'}/${name}/predictions` }
}

function reportOf<K extends WorkKind>(json: unknown, read: (output: unknown) => WorkKinds[K]['output']): Report<K> {
  const status = text(json, 'status')
  switch (status) {
    case 'starting':
    case 'processing':
      return pending()
    case 'succeeded':
      return completion(
        () => {
          if (at(json, 'data_removed') === true) throw invalid('its files were removed already')
          return read(at(json, 'output'))
        },
        output => ({ seconds: secondsOf(output), credits: optionalAmount(json, 'metrics.predict_time') }),
      )
    case 'failed': {
      const message = optionalText(json, 'error') ?? ''
      return { status: 'failed', error: refusal(reasonOfText(message), message) }
    }
    case 'canceled':
    case 'aborted':
      return { status: 'failed', error: refusal('server_error', `The provider reports the work as ${status}.`) }
    default:
      throw invalid('it has an unknown `status`')
  }
}

/** Standard Webhooks with the account's own secret, which the API tells when the configuration does not. */
async function verify({ headers, raw, nowMs, secret, line, remember }: Callback): Promise<boolean> {
  const key = secret ?? (await remember('webhook_secret', () => accountSecret(line)))
  return isStandardWebhook(headers, raw, key, nowMs)
}

async function accountSecret(line: ProviderLine): Promise<string> {
  const { json } = await line.send({ method: 'GET', path: '/webhooks/default/secret' })
  return text(json, 'key')
}
