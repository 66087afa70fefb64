import type { Operation, PollReport, Protocol, ProviderConnection, QueuedAdapter, QueuedCall } from '../../contract.ts'
import type { FailureReason } from '../../provider-error.ts'
import { classifyResponse, classifyWorkFailure } from '../../toolkit/classify-by-message.ts'
import {
  type Headers,
  invalidResponse,
  parseJsonOrNull,
  readHandle,
  readList,
  readNumber,
  readOptionalAmount,
  readOptionalNumber,
  readOptionalText,
  valueAt,
} from '../../toolkit/json-fields.ts'
import { completedReport, noInvoice, pendingReport, videoAt } from '../../toolkit/poll-reports.ts'
import { refusal } from '../../toolkit/refusal.ts'

const faceSwap: QueuedAdapter<'face_swap'> = { poll: { firstMs: 5_000, maxMs: 10_000 }, start, check }

/**
 * Akool's face swap v4 (docs.akool.com/ai-tools-suite/faceswap). Traits: `model_style` (`realistic` by default) and
 * `face_enhance`. The invoice is `deduction_duration`, read as credits. Every response has status 200; its `code`
 * distinguishes success from failure. The encryption of callbacks is not documented, so the work is only polled.
 */
export const akool: Protocol = { direct: {}, queued: { face_swap: faceSwap }, failure }

const success = 1000
/** docs.akool.com/ai-tools-suite/error-code */
const byCode = new Map<number, FailureReason>([
  [1003, 'invalid_request'],
  [1004, 'auth'],
  [1005, 'rate_limited'],
  [1006, 'quota'],
  [1007, 'rate_limited'],
  [1009, 'auth'],
  [1101, 'auth'],
  [1102, 'auth'],
  [1103, 'quota'],
  [1104, 'quota'],
  [1109, 'auth'],
  [1200, 'auth'],
])

/** `faceswap_status` of an entry. */
const inQueue = 1
const processing = 2
const succeeded = 3
const failed = 4

async function start(
  { target: { deployment }, sources }: QueuedCall<'face_swap'>,
  connection: ProviderConnection,
): Promise<Operation> {
  const { model_style, face_enhance } = deployment.traits ?? {}
  const { json } = await connection.send({
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
  return { id: readHandle(json, 'data._id') }
}

async function check({ id }: Operation, connection: ProviderConnection): Promise<PollReport<'face_swap'>> {
  const { json } = await connection.send({ method: 'GET', path: `/api/open/v3/faceswap/result/listbyids?_ids=${id}` })
  assertSuccess(json)
  const entry = readList(json, 'data.result').find(candidate => valueAt(candidate, '_id') === id)
  if (!entry) throw invalidResponse('it does not list the face swap')
  switch (readNumber(entry, 'faceswap_status')) {
    case inQueue:
    case processing:
      return pendingReport()
    case succeeded:
      return completedReport(
        () => videoAt(entry, 'url', readOptionalAmount(entry, 'video_duration')),
        () => ({ ...noInvoice, credits: readOptionalAmount(entry, 'deduction_duration') }),
      )
    case failed:
      return { status: 'failed', error: classifyWorkFailure('The face swap failed at the provider.') }
    default:
      throw invalidResponse('its `faceswap_status` is unknown')
  }
}

/** Throws the failure that a `code` other than 1000 means; an unknown code implies nothing about the work. */
function assertSuccess(json: unknown): void {
  const code = readNumber(json, 'code')
  if (code === success) return
  const reason = byCode.get(code)
  if (!reason) throw invalidResponse(`its \`code\` is ${code}`)
  throw refusal(reason, readOptionalText(json, 'msg') ?? '')
}

/** Failures outside the envelope, such as those of a proxy before the API. */
function failure(status: number, headers: Headers, body: string) {
  const json = parseJsonOrNull(body)
  const reason = byCode.get(readOptionalNumber(json, 'code') ?? 0)
  const message = readOptionalText(json, 'msg') ?? readOptionalText(json, 'message') ?? ''
  return reason ? refusal(reason, message, status, headers) : classifyResponse(status, headers, message)
}
