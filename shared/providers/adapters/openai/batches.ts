import { GatewayError } from '../../../base/errors.ts'
import { isObject } from '../../../base/is-object.ts'
import { isSuccess } from '../../../io/http.ts'
import type { ChatRequest } from '../../../kinds/chat.ts'
import type { DirectKind } from '../../../kinds/index.ts'
import type { BatchAdapter, DirectAdapter, ProviderConnection, Source, Target } from '../../contract.ts'
import { fittedChat } from '../../profile/fit-chat.ts'
import { goesByResponses } from '../../profile/fitting.ts'
import { ProviderError } from '../../provider-error.ts'
import { type BatchOutcome, batchAnswers, batchCancelled, batchExpired } from '../../toolkit/batch-answers.ts'
import {
  invalidResponse,
  readHandle,
  readList,
  readOptionalAmount,
  readOptionalNumber,
  readOptionalText,
  readText,
  valueAt,
} from '../../toolkit/json-fields.ts'
import { chat } from './chat.ts'
import { completion } from './completion.ts'
import { embedding } from './embedding.ts'
import { failure, reportedFailure } from './failure.ts'
import { responses } from './responses.ts'

const adapters: { [K in DirectKind]?: DirectAdapter<K> } = {
  chat: fittedChat(chat),
  completion,
  embedding,
  responses,
}
const endpoints: { [K in DirectKind]?: string } = {
  chat: '/v1/chat/completions',
  completion: '/v1/completions',
  embedding: '/v1/embeddings',
  responses: '/v1/responses',
}

/** Retention of our files at OpenAI: a batch takes a day, and this gateway may be down for some. */
const retention = { anchor: 'created_at', seconds: 7 * 24 * 60 * 60 }
/** The entry of a batch's metadata with our id. */
const metadataName = 'headgate_batch'
/** Listed newest first; a batch that is searched for was started recently. */
const maxPages = 10

/** The states of a batch (platform.openai.com/docs/guides/batch), and whether they are final. */
const finalByStatus: ReadonlyMap<string, boolean> = new Map([
  ['validating', false],
  ['in_progress', false],
  ['finalizing', false],
  ['cancelling', false],
  ['completed', true],
  ['expired', true],
  ['cancelled', true],
])

/**
 * `POST /files` and `POST /batches`. When OpenAI rejects a file as a whole, for example because its queue is full,
 * nothing was run: `check` then throws `invalid_request` with its message and without the status that a failed poll
 * has.
 */
export const batch: BatchAdapter = {
  max: { requests: 50_000, bytes: 200_000_000 },
  file: { contentType: 'application/jsonl', before: '', between: '\n', after: '\n' },
  entry(kind, id, call) {
    const adapter = adapters[kind]
    if (!adapter)
      throw new GatewayError('unsupported_capability', 'The provider has no batches of this kind.', { param: 'model' })
    // A batch has one endpoint.
    if (kind === 'chat' && goesByResponses(call.body as ChatRequest, call.target))
      throw new GatewayError(
        'unsupported_capability',
        'In a provider’s own batch, functions with reasoning are in Responses only.',
        { param: 'tools' },
      )
    // Without the caller's own bytes, which may contain line breaks between fields.
    const whole = {
      ...call,
      target: withoutServiceTier(call.target),
      raw: null,
      body: { ...call.body, stream: undefined },
    }
    const { body } = adapter.request(whole)
    return `{"custom_id":${JSON.stringify(id)},"method":"POST","url":"${endpoints[kind]}","body":${body}}`
  },
  async start(file, { kind, batchId }, connection) {
    const { json } = await connection.send({
      method: 'POST',
      path: '/batches',
      json: {
        input_file_id: await uploadFile(file, connection),
        endpoint: endpoints[kind],
        completion_window: '24h',
        metadata: { [metadataName]: batchId },
        output_expires_after: retention,
      },
    })
    return { id: readHandle(json, 'id') }
  },
  async find(batchId, connection) {
    let path = '/batches?limit=100'
    for (let page = 0; page < maxPages; page++) {
      const { json } = await connection.send({ method: 'GET', path })
      const batches = readList(json, 'data')
      const existing = batches.find(one => valueAt(one, `metadata.${metadataName}`) === batchId)
      if (existing) return { id: readHandle(existing, 'id') }
      if (valueAt(json, 'has_more') !== true) return null
      path = `/batches?limit=100&after=${readHandle(batches.at(-1), 'id')}`
    }
    return null
  },
  async check({ id }, connection) {
    const { json } = await connection.send({ method: 'GET', path: `/batches/${id}` })
    const status = readText(json, 'status')
    if (status === 'failed')
      throw new ProviderError('invalid_request', reportedFailure({ error: valueAt(json, 'errors.data.0') }).message)
    const isFinal = finalByStatus.get(status)
    if (isFinal === undefined) throw invalidResponse('it has an unknown `status`')
    const count = (name: string) => readOptionalAmount(json, `request_counts.${name}`) ?? 0
    return { isOver: isFinal, completed: count('completed'), failed: count('failed') }
  },
  async *results({ id }, connection) {
    const { json } = await connection.send({ method: 'GET', path: `/batches/${id}` })
    for (const name of ['output_file_id', 'error_file_id']) {
      if (readOptionalText(json, name) === null) continue
      const path = `/files/${readHandle(json, name)}/content`
      const { stream } = await connection.stream({ method: 'GET', path, headers: { accept: 'application/binary' } })
      yield* batchAnswers(stream, outcomeOf)
    }
  },
  async cancel({ id }, connection) {
    // An ended or missing batch needs no cancellation.
    await connection.send({ method: 'POST', path: `/batches/${id}/cancel`, allow: [400, 404, 409] })
  },
}

/** A batch has its own service tier: its requests name none. */
function withoutServiceTier(target: Target): Target {
  const { service_tier: _tier, ...quirks } = target.provider.quirks ?? {}
  return { ...target, provider: { ...target.provider, quirks } }
}

/** The id of the uploaded file. Nothing runs before the batch exists: a failure until then certainly had no effect. */
async function uploadFile(file: Source, connection: ProviderConnection): Promise<string> {
  try {
    const { json } = await connection.send({
      method: 'POST',
      path: '/files',
      parts: [
        { name: 'purpose', value: 'batch' },
        { name: 'expires_after[anchor]', value: retention.anchor },
        { name: 'expires_after[seconds]', value: String(retention.seconds) },
        { name: 'file', file },
      ],
    })
    return readHandle(json, 'id')
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    const { reason, message, status, retryAfterMs } = error
    throw new ProviderError(reason, message, {
      ...(status !== null && { status }),
      ...(retryAfterMs !== null && { retryAfterMs }),
      unsent: true,
      cause: error,
    })
  }
}

/** The result in one line of the output file or of the error file. */
function outcomeOf(line: unknown): BatchOutcome {
  const status = readOptionalNumber(line, 'response.status_code')
  if (status !== null) {
    const body = valueAt(line, 'response.body')
    return isSuccess(status) ? { json: body } : { error: failure(status, {}, JSON.stringify(body)) }
  }
  const error = valueAt(line, 'error')
  const code = valueAt(error, 'code')
  if (code === 'batch_expired') return { error: batchExpired() }
  if (code === 'batch_cancelled') return { error: batchCancelled() }
  return {
    error: isObject(error)
      ? reportedFailure({ error })
      : invalidResponse('a result has neither an answer nor an error'),
  }
}
