import type { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { chatFormatOf } from '../chat/chat-formats.ts'
import { receivedError } from '../engine/messages-error.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Reservation } from '../wallet/admission.ts'
import type { UsageEvent } from '../wallet/usage-event.ts'
import type { LineResult } from './batch-journal.ts'

/** A reservation to be released once its line has its result; `tokens` corrects the token rate limit. */
export type LineReservation = { reservation: Reservation; tokens: number }

/** What an attempt at a line left to its batch: its remaining reservation, and its usage. */
export type LineSettlement = { reservation: LineReservation | null; event: UsageEvent | null }

/** A line with its result, and its remaining reservation. */
export type FinishedLine = LineResult & { customId: string; reservation: LineReservation | null }

/** The errors of lines that end without an answer. */
export const endErrors = {
  cancelled: { code: 'batch_cancelled', message: 'The batch was cancelled before this request was answered.' },
  expired: { code: 'batch_expired', message: 'The batch expired before this request was answered.' },
} as const

/** Why a line has no answer; with `request_id` if its call was made and charged. */
type LineError = { code: string; message: string; request_id?: string }

/** The result of a line with an answer, which may be an error. */
export function answeredLine(
  line: number,
  customId: string,
  requestId: string,
  { status, body, event, reservation }: LineSettlement & { status: number; body: string },
): FinishedLine {
  const text = answeredText(customId, requestId, status, body)
  return { line, customId, failed: status !== 200, text, event, reservation }
}

/** The result of a line without an answer. */
export function unansweredLine(line: number, customId: string, why: LineError): FinishedLine {
  return { line, customId, failed: true, text: unansweredText(customId, why), event: null, reservation: null }
}

/**
 * The status and the body of a line that failed: the provider's own refusal where it speaks the line's format. What it cost all
 * the same, in nano-dollars, is in `metadata`.
 */
export function refusalOf(kind: DirectKind, error: GatewayError, costNano: number): { status: number; body: string } {
  const received = chatFormatOf(kind).passesRefusals ? receivedError(error) : null
  if (received) return received
  const { body, status } = error
  if (costNano > 0) body.error.metadata = { ...body.error.metadata, cost_usd: costNano / 1e9 }
  return { status, body: JSON.stringify(body) }
}

/** In JSON they occur between values only. */
const lineEnds = /[\r\n]+/g

/** Formats an answer as a line of the output or error file. `text` is JSON, with or without line ends. */
export function answeredText(customId: string, requestId: string, statusCode: number, text: string): string {
  const body = text.replace(lineEnds, ' ')
  const [id, custom_id, request_id] = [newId('batch_req'), customId, requestId].map(text => JSON.stringify(text))
  return `{"id":${id},"custom_id":${custom_id},"response":{"status_code":${statusCode},"request_id":${request_id},"body":${body}},"error":null}`
}

/** Formats the error-file line of a request without an answer. */
export function unansweredText(customId: string, error: LineError): string {
  return JSON.stringify({ id: newId('batch_req'), custom_id: customId, response: null, error })
}
