import { unsupported } from '../../../kinds/media.ts'
import type { Operation, PollReport, Protocol, ProviderConnection, QueuedAdapter, QueuedCall } from '../../contract.ts'
import type { FailureReason, ProviderError } from '../../provider-error.ts'
import { assertOneResolution } from '../../toolkit/assert-one-resolution.ts'
import { classifyResponse, classifyWorkFailure } from '../../toolkit/classify-by-message.ts'
import {
  type Headers,
  invalidResponse,
  parseJsonOrNull,
  readHandle,
  readOptionalAmount,
  readOptionalText,
  readText,
  valueAt,
} from '../../toolkit/json-fields.ts'
import { completedReport, noInvoice, pendingReport, videoAt } from '../../toolkit/poll-reports.ts'
import { refusal } from '../../toolkit/refusal.ts'

const lipsync: QueuedAdapter<'lipsync'> = { poll: { firstMs: 5_000, maxMs: 10_000 }, start, check }

/**
 * Sync's API v2 (as in the npm package @sync.so/sdk). The trait `sync_mode` handles audio and video of different
 * durations, `loop` by default. The signature of its callbacks is not documented, so none are requested.
 */
export const sync: Protocol = {
  direct: {},
  queued: { lipsync },
  credentialCheck: () => ({ path: '/v2/models' }),
  failure,
}

async function start(call: QueuedCall<'lipsync'>, connection: ProviderConnection): Promise<Operation> {
  const { json } = await connection.send({ method: 'POST', path: '/v2/generate', json: await generation(call) })
  return { id: readHandle(json, 'id') }
}

async function generation({ target, jobId, input, sources }: QueuedCall<'lipsync'>): Promise<object> {
  const { model, deployment } = target
  const [video, audio] = [sources.get('video_url'), sources.get('audio_url')]
  if (!video || !audio) throw unsupported(model, 'image_url', 'takes `video_url` with `audio_url`')
  assertOneResolution(target)
  return {
    model: deployment.upstream_model,
    input: [
      { type: 'video', url: await video.url() },
      { type: 'audio', url: await audio.url() },
    ],
    options: { sync_mode: deployment.traits?.sync_mode ?? 'loop', ...(input.prompt && { prompt: input.prompt }) },
    outputFileName: jobId,
  }
}

async function check({ id }: Operation, connection: ProviderConnection): Promise<PollReport<'lipsync'>> {
  const { json } = await connection.send({ method: 'GET', path: `/v2/generate/${id}` })
  switch (readText(json, 'status')) {
    case 'PENDING':
    case 'PROCESSING':
      return pendingReport()
    case 'COMPLETED':
      return completedReport(
        () => videoAt(json, outputOf(json), readOptionalAmount(json, 'outputDuration')),
        ({ durationS }) => ({ ...noInvoice, seconds: durationS }),
      )
    case 'FAILED':
      return { status: 'failed', error: failureOfWork(json, 'server_error') }
    case 'REJECTED':
      return { status: 'failed', error: failureOfWork(json, 'invalid_request') }
    default:
      throw invalidResponse('its `status` is unknown')
  }
}

/** The result; `outputUrl` is its older name (glama.ai/mcp/servers/synchronicity-labs/mcp-server). */
function outputOf(json: unknown): string {
  return readOptionalText(json, 'outputMediaUrl') === null ? 'outputUrl' : 'outputMediaUrl'
}

/** Sync's error codes by their beginnings and ends (sync.so/docs/developer-guides/error-handling). */
const byCode: [pattern: RegExp, reason: FailureReason][] = [
  // A file that this gateway serves.
  [/^generation_input_\w+_inaccessible$/, 'server_error'],
  [/^generation_input_|^generation_unsupported_model$|^generation_media_metadata_missing$/, 'invalid_request'],
  [/^generation_(?:audio|text)_length_exceeded$|^generation_(?:audio|video)_missing$/, 'invalid_request'],
  // Longer than the account's plan allows for one video: it still has credit for shorter ones.
  [/^generation_plan_duration_exceeded$/, 'invalid_request'],
  [/^generation_timeout$/, 'timeout'],
  [/^generation_(?:infra|database)_/, 'server_error'],
]

function reasonOfCode(code: string | null): FailureReason | undefined {
  return code === null ? undefined : byCode.find(([pattern]) => pattern.test(code))?.[1]
}

/** `error_code` in the official client's types, `errorCode` in newer answers. */
function codeIn(json: unknown): string | null {
  return readOptionalText(json, 'errorCode') ?? readOptionalText(json, 'error_code')
}

function failureOfWork(json: unknown, otherwise: FailureReason): ProviderError {
  const [words, code] = [readOptionalText(json, 'error'), codeIn(json)]
  const reason = reasonOfCode(code)
  return reason ? refusal(reason, words ?? code!) : classifyWorkFailure(words, code, otherwise)
}

/** `{"message":"…","statusCode":400,"errorCode":"…"}`; several errors are a list of strings. */
function failure(status: number, headers: Headers, body: string): ProviderError {
  const json = parseJsonOrNull(body)
  const message = valueAt(json, 'message')
  const words = (Array.isArray(message) ? message : [message]).filter(part => typeof part === 'string').join('; ')
  const reason = status < 500 ? reasonOfCode(codeIn(json)) : undefined
  return reason ? refusal(reason, words, status, headers) : classifyResponse(status, headers, words)
}
