import type {
  FailureReason,
  Operation,
  Protocol,
  ProviderLine,
  QueuedAdapter,
  QueuedCall,
  Report,
} from '../contract.ts'
import {
  at,
  type Headers,
  handle,
  invalid,
  list,
  number,
  optionalAmount,
  optionalNumber,
  optionalText,
  parsed,
  refusal,
} from '../fields.ts'
import { completion, noInvoice, pending, videoAt } from '../reports.ts'
import { refusalInWords, workFailure } from '../words.ts'

const faceSwap: QueuedAdapter<'face_swap'> = { poll: { firstMs: 5_000, mostMs: 10_000 }, start, check }

/**
 * Akool's face swap v4 (docs.akool.com/ai-tools-suite/faceswap). Traits: `model_style` (`realistic` by default) and
 * `face_enhance`. The invoice is `deduction_duration`, taken for credits. Every answer has status 200 and says in `code`
 * whether it is one. Callbacks are encrypted in a way that is not published, so it is only asked.
 */
export const akool: Protocol = { direct: {}, queued: { face_swap: faceSwap }, failure }

const success = 1000
const byCode = new Map<number, FailureReason>([
  [1003, 'invalid_request'],
  [1005, 'rate_limited'],
  [1006, 'quota'],
  [1007, 'rate_limited'],
  [1101, 'auth'],
  [1102, 'auth'],
  [1200, 'auth'],
])

/** `faceswap_status` of an entry. */
const inQueue = 1
const processing = 2
const succeeded = 3
const failed = 4

async function start(
  { target: { deployment }, sources }: QueuedCall<'face_swap'>,
  line: ProviderLine,
): Promise<Operation> {
  const { model_style, face_enhance } = deployment.traits ?? {}
  const { json } = await line.send({
    method: 'POST',
    path: '/api/open/v4/faceswap/faceswapPlusByImage',
    json: {
      source_url: await sources.get('face_image_url')!.url(),
      target_url: await sources.get('video_url')!.url(),
      model_style: model_style ?? 'realistic',
      ...(face_enhance !== undefined && { face_enhance }),
      single_face_mode: true,
    },
  })
  assertSuccess(json)
  return { id: handle(json, 'data._id') }
}

async function check({ id }: Operation, line: ProviderLine): Promise<Report<'face_swap'>> {
  const { json } = await line.send({ method: 'GET', path: `/api/open/v3/faceswap/result/listbyids?_ids=${id}` })
  assertSuccess(json)
  const entry = list(json, 'data.result').find(found => at(found, '_id') === id)
  if (!entry) throw invalid('it does not list the face swap')
  switch (number(entry, 'faceswap_status')) {
    case inQueue:
    case processing:
      return pending()
    case succeeded:
      return completion(
        () => videoAt(entry, 'url', optionalAmount(entry, 'video_duration')),
        () => ({ ...noInvoice, credits: optionalAmount(entry, 'deduction_duration') }),
      )
    case failed:
      return { status: 'failed', error: workFailure('The face swap failed at the provider.') }
    default:
      throw invalid('its `faceswap_status` is unknown')
  }
}

/** Throws what a `code` other than 1000 means; an unknown one says nothing of what was done. */
function assertSuccess(json: unknown): void {
  const code = number(json, 'code')
  if (code === success) return
  const reason = byCode.get(code)
  if (!reason) throw invalid(`its \`code\` is ${code}`)
  throw refusal(reason, optionalText(json, 'msg') ?? '')
}

/** Faults outside the envelope, such as those of a proxy before the API. */
function failure(status: number, headers: Headers, body: string) {
  const json = parsed(body)
  const reason = byCode.get(optionalNumber(json, 'code') ?? 0)
  const message = optionalText(json, 'msg') ?? optionalText(json, 'message') ?? ''
  return reason ? refusal(reason, message, status, headers) : refusalInWords(status, headers, message)
}
