import type { WorkKind, WorkKinds } from '../../kinds/index.ts'
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
import type { ModelInput } from '../model-fields.ts'
import { avatarInput, faceSwapInput, lipsyncInput, meshInput, videoInput } from '../model-input.ts'
import { imageInput, mostPieces, musicInput, sfxInput } from '../model-instant-input.ts'
import { imageOutput, meshOutput, mostResultBytes, secondsOf, soundOutput, videoOutput } from '../model-output.ts'
import { named, withParam } from '../param.ts'
import { completion, pending } from '../reports.ts'
import { verify } from './callback.ts'
import { failure, placeOf } from './failure.ts'

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
const slow = { firstMs: 2_000, mostMs: 10_000 }
/** For somebody who waits. */
const quick = { firstMs: 300, mostMs: 2_000 }

/**
 * fal's queue (docs.fal.ai/model-apis): one way to run a thousand models, whose fields are named by the deployment's traits
 * (../model-fields.ts). `output_field` names the main file where it has no common name. A price in credits is per billable
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
  instant: {
    image: { ...adapter(call => imageInput(call, options), imageOutput, quick), mostPieces },
    music: adapter(call => musicInput(call, options), soundOutput, quick),
    sfx: adapter(call => sfxInput(call, options), soundOutput, quick),
  },
  verify,
  failure,
}

/** Of the entries of an operation that tell which field of ours went into one of the model's. */
const fieldPrefix = 'field:'

type OutputOf<K extends WorkKind> = (json: unknown, field: string | null) => WorkKinds[K]['output']

function adapter<K extends WorkKind>(
  mapped: (call: QueuedCall<K>) => Promise<ModelInput>,
  outputOf: OutputOf<K>,
  poll = slow,
): QueuedAdapter<K> {
  return {
    poll,
    async start(call, line) {
      const { model, input, params } = await mapped(call)
      const query = call.callbackUrl ? `?fal_webhook=${encodeURIComponent(call.callbackUrl)}` : ''
      const { json } = await named(
        params,
        line.send({ method: 'POST', path: `/${model}${query}`, json: input }),
        placeOf,
      )
      const field = call.target.deployment.traits?.output_field
      return {
        app: appOf(model),
        request: handle(json, 'request_id'),
        output: field === undefined ? null : String(field),
        ...Object.fromEntries(Object.entries(params).map(([name, param]) => [fieldPrefix + name, param])),
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

async function check<K extends WorkKind>(
  operation: Operation,
  line: ProviderLine,
  outputOf: OutputOf<K>,
): Promise<Report<K>> {
  const { json } = await line.send({ method: 'GET', path: `${pathOf(operation)}/status` })
  const status = text(json, 'status')
  if (status === 'IN_QUEUE' || status === 'IN_PROGRESS') return pending()
  if (status !== 'COMPLETED') throw invalid('it has an unknown `status`')
  // Completed only means over: the result is the model's answer with the model's own status.
  const result = await line.send({ method: 'GET', path: pathOf(operation), allow: endings, mostBytes: mostResultBytes })
  if (result.status > 299) return ended(result, operation)
  if (!isObject(result.json)) throw invalid('its result is not an object')
  return completion(
    () => outputOf(result.json, optionalText(operation, 'output')),
    output => ({ seconds: secondsOf(output), credits: optionalAmount(result.headers, 'x-fal-billable-units') }),
  )
}

function paramAt(operation: Operation, name: string | null): string | null {
  const param = operation[`${fieldPrefix}${name}`]
  return param === undefined ? null : String(param)
}

/** Work that ended without a result. A fault of the queue looks alike, but does not say what became of the request. */
function ended({ status, headers, text, json }: ProviderAnswer, operation: Operation): Report<never> {
  const place = optionalText(json, 'detail.0.loc.1')
  const error = withParam(failure(status, headers, text), paramAt(operation, place))
  const isVerdict = status < 500 || at(json, 'error_type') !== undefined || headers['x-fal-error-type'] !== undefined
  if (!isVerdict && !(status === 500 && at(json, 'detail') !== undefined)) throw error
  return { status: 'failed', error }
}
