import { z } from 'zod'
import { type ErrorCode, GatewayError } from '../base/errors.ts'
import { parseStoredRequest } from '../base/exact-numbers.ts'
import { parseJson } from '../base/json.ts'
import { inSchemaForm, validateRequest } from '../base/validate.ts'
import { chatFormatOf } from '../chat/chat-formats.ts'
import { type DirectKind, type DirectKinds, directKinds } from '../kinds/index.ts'

/** The endpoints that batches support, and the kind of each. */
export const batchEndpoints = {
  '/v1/chat/completions': 'chat',
  '/v1/embeddings': 'embedding',
  '/v1/completions': 'completion',
  '/v1/responses': 'responses',
  '/v1/messages': 'messages',
} as const satisfies Record<string, DirectKind>
export type BatchEndpoint = keyof typeof batchEndpoints

const maxShownCharacters = 100

export type BatchRequestLine = {
  customId: string
  body: DirectKinds[(typeof batchEndpoints)[BatchEndpoint]]['request']
}

/** What is wrong with a line, as the batch's `errors` show it. */
export type LineFault = { code: ErrorCode; line: number | null; message: string; param: string | null }

type LineShape = { custom_id: string; url?: BatchEndpoint; body: BatchRequestLine['body'] }

/** Parses a line that was validated before, without checks for speed. */
export function readRequest(bytes: Buffer): BatchRequestLine {
  const { custom_id, url, body } = parseStoredRequest(bytes.toString()) as LineShape
  const schema = directKinds[batchEndpoints[url!]]
  return { customId: custom_id, body: inSchemaForm(schema, body) as BatchRequestLine['body'] }
}

/**
 * Parses and checks a line. Throws a GatewayError: `invalid_json`, `unknown_field`, `missing_field`,
 * `invalid_request` or `unsupported_capability`, with the field in `param`, such as `body.messages.0.content`.
 */
export function parseRequest(bytes: Buffer, endpoint: BatchEndpoint): BatchRequestLine {
  const parsed = parseJson(bytes, 'The line')
  refusePreset(Object(Object(parsed).body))
  const line = validateRequest(lineSchemas[endpoint], parsed, null, 'The line')
  const { custom_id, body } = line.body
  if ((body as { stream?: unknown }).stream === true)
    throw new GatewayError('invalid_request', 'A batch cannot stream: leave out `stream`.', {
      param: 'body.stream',
    })
  const format = chatFormatOf(batchEndpoints[endpoint])
  format.refuseStored?.(body, 'body.')
  return { customId: custom_id, body }
}

/** A line runs long after it was checked, when its preset may be another one. Throws 400. */
function refusePreset({ model, preset }: { model?: unknown; preset?: unknown }): void {
  const isInModel = typeof model === 'string' && model.includes('@preset/')
  if (!isInModel && (preset === undefined || preset === null)) return
  const message = 'Lines of batches do not take presets: state its model and settings.'
  throw new GatewayError('invalid_request', message, { param: isInModel ? 'body.model' : 'body.preset' })
}

const lineSchemas = Object.fromEntries(
  (Object.keys(batchEndpoints) as BatchEndpoint[]).map(endpoint => [endpoint, lineSchema(endpoint)]),
) as Record<BatchEndpoint, z.ZodType<LineShape>>

function lineSchema(endpoint: BatchEndpoint): z.ZodType<LineShape> {
  const body: z.ZodType<LineShape['body']> = directKinds[batchEndpoints[endpoint]]
  const otherUrl = (url: unknown) => {
    const shown = typeof url === 'string' ? url.slice(0, maxShownCharacters) : typeof url
    return `the batch is for ${endpoint}, the line for ${shown}`
  }
  return z.strictObject({
    custom_id: z.string().min(1).max(512),
    method: z.literal('POST'),
    url: z.literal(endpoint, { error: ({ input }) => otherUrl(input) }),
    body,
  })
}

const [space, tab, carriageReturn] = Buffer.from(' \t\r')

/** Whether a line is blank: blank lines at the end of a file are ignored. */
export function isBlank(bytes: Buffer): boolean {
  return bytes.every(byte => byte === space || byte === tab || byte === carriageReturn)
}
