import type { QueuedKind, QueuedKinds } from '../../kinds/index.ts'
import type {
  Operation,
  Protocol,
  ProviderAnswer,
  ProviderLine,
  QueuedAdapter,
  QueuedCall,
  Report,
} from '../contract.ts'
import { at, handle, invalid, isObject, optionalAmount, optionalText, text } from '../fields.ts'
import { avatarInput, faceSwapInput, lipsyncInput, type ModelInput, meshInput, videoInput } from '../model-input.ts'
import { meshOutput, videoOutput } from '../model-output.ts'
import { completion, pending } from '../reports.ts'
import { verify } from './callback.ts'
import { failure } from './failure.ts'

/** A file may stand in the input up to this size. */
const options = { inlineBytes: 10 * 1024 * 1024 }

/**
 * fal's queue (docs.fal.ai/model-apis): one way to run a thousand models, whose fields are named by the deployment's traits
 * (../model-input.ts). `output_field` names the main file where it has no common name. A price in credits is per billable
 * unit of the endpoint. Callbacks are signed with keys published at the quirk `jwks_url`.
 */
export const fal: Protocol = {
  direct: {},
  queued: {
    video: adapter(call => videoInput(call, options), videoOutput),
    lipsync: adapter(call => lipsyncInput(call, options), videoOutput),
    face_swap: adapter(call => faceSwapInput(call, options), videoOutput),
    avatar: adapter(call => avatarInput(call, options), videoOutput),
    mesh: adapter(call => meshInput(call, options), meshOutput),
  },
  verify,
  failure,
}

function adapter<K extends QueuedKind>(
  mapped: (call: QueuedCall<K>) => Promise<ModelInput>,
  outputOf: (json: unknown, field: string | null) => QueuedKinds[K]['output'],
): QueuedAdapter<K> {
  return {
    poll: { firstMs: 2_000, mostMs: 10_000 },
    async start(call, line) {
      const { model, input } = await mapped(call)
      const query = call.callbackUrl ? `?fal_webhook=${encodeURIComponent(call.callbackUrl)}` : ''
      const { json } = await line.send({ method: 'POST', path: `/${model}${query}`, json: input })
      const field = call.target.deployment.traits?.output_field
      return {
        app: appOf(model),
        request: handle(json, 'request_id'),
        output: field === undefined ? null : String(field),
      }
    },
    check: (operation, line) => check(operation, line, outputOf),
    async cancel(operation, line) {
      // 400 = already completed, 404 = gone: there is nothing left to stop.
      await line.send({ method: 'PUT', path: `${pathOf(operation)}/cancel`, allow: [400, 404] })
    },
  }
}

/** What the queue knows a model by: two segments of its name, three in a namespace. */
function appOf(model: string): string {
  const segments = model.split('/')
  return segments.slice(0, ['workflows', 'comfy'].includes(segments[0]!) ? 3 : 2).join('/')
}

function pathOf({ app, request }: Operation): string {
  return `/${app}/requests/${request}`
}

/** Statuses that the model itself may have ended with; the others are about the look. */
const endings = [400, 405, 406, 409, 410, 413, 415, 422, 424, 451, 500, 502, 503, 504]

async function check<K extends QueuedKind>(
  operation: Operation,
  line: ProviderLine,
  outputOf: (json: unknown, field: string | null) => QueuedKinds[K]['output'],
): Promise<Report<K>> {
  const { json } = await line.send({ method: 'GET', path: `${pathOf(operation)}/status` })
  const status = text(json, 'status')
  if (status === 'IN_QUEUE' || status === 'IN_PROGRESS') return pending()
  if (status !== 'COMPLETED') throw invalid('it has an unknown `status`')
  // Completed only means over: the result is the model's answer with the model's own status.
  const result = await line.send({ method: 'GET', path: pathOf(operation), allow: endings })
  if (result.status > 299) return ended(result)
  if (!isObject(result.json)) throw invalid('its result is not an object')
  return completion(
    () => outputOf(result.json, optionalText(operation, 'output')),
    ({ durationS }) => ({ seconds: durationS, credits: optionalAmount(result.headers, 'x-fal-billable-units') }),
  )
}

/** Work that ended without a result. A fault of the queue looks alike, but does not say what became of the request. */
function ended({ status, headers, text, json }: ProviderAnswer): Report<never> {
  const error = failure(status, headers, text)
  const isVerdict = status < 500 || at(json, 'error_type') !== undefined || headers['x-fal-error-type'] !== undefined
  if (!isVerdict && !(status === 500 && at(json, 'detail') !== undefined)) throw error
  return { status: 'failed', error }
}
