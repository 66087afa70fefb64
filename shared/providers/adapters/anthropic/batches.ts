import type { DirectKind } from '../../../kinds/index.ts'
import type { BatchAdapter, DirectAdapter, ProviderConnection } from '../../contract.ts'
import { fittedChat } from '../../profile/fit-chat.ts'
import { type BatchOutcome, batchAnswers, batchCancelled, batchExpired } from '../../toolkit/batch-answers.ts'
import { unsupported } from '../../toolkit/field-refusals.ts'
import { invalidResponse, readHandle, readOptionalAmount, readText, valueAt } from '../../toolkit/json-fields.ts'
import { chat, version } from './chat.ts'
import { batchFailure } from './failure.ts'
import { messages } from './messages.ts'

const path = '/v1/messages/batches'
const adapters: { [K in DirectKind]?: DirectAdapter<K> } = { chat: fittedChat(chat), messages }

/** The server reads the whole file before it responds. */
const firstByteMs = 5 * 60_000

/** The states of a batch (its `processing_status` in the API reference), and whether they are final. */
const finalByStatus: ReadonlyMap<string, boolean> = new Map([
  ['in_progress', false],
  ['canceling', false],
  ['ended', true],
])

/**
 * `POST /v1/messages/batches`. A batch carries no id of ours, so a start whose response was lost cannot be found.
 * Requests are validated when they are run: an invalid one fails by itself. All counts are 0 until the batch has ended.
 */
export const batch: BatchAdapter = {
  max: { requests: 100_000, bytes: 256_000_000 },
  file: { contentType: 'application/json', before: '{"requests":[', between: ',', after: ']}' },
  entry(kind, id, call) {
    const adapter = adapters[kind]
    if (!adapter) throw unsupported('model', 'the provider has no batches of this kind')
    const { body } = adapter.request({ ...call, raw: null, body: { ...call.body, stream: undefined } })
    return `{"custom_id":${JSON.stringify(id)},"params":${body}}`
  },
  async start(file, _about, connection) {
    const { json } = await connection.send({ method: 'POST', path, headers: version, file, firstByteMs })
    return { id: readHandle(json, 'id') }
  },
  async check({ id }, connection) {
    const json = await pollBatch(id, connection)
    const isFinal = finalByStatus.get(readText(json, 'processing_status'))
    if (isFinal === undefined) throw invalidResponse('it has an unknown `processing_status`')
    const count = (name: string) => readOptionalAmount(json, `request_counts.${name}`) ?? 0
    return { isOver: isFinal, completed: count('succeeded'), failed: count('errored') }
  },
  async *results({ id }, connection) {
    const { stream } = await connection.stream({
      method: 'GET',
      path: pathOf(readText(await pollBatch(id, connection), 'results_url'), connection),
      headers: { ...version, accept: 'application/binary' },
    })
    yield* batchAnswers(stream, outcomeOf)
  },
  async cancel({ id }, connection) {
    // An ended or missing batch needs no cancellation.
    await connection.send({ method: 'POST', path: `${path}/${id}/cancel`, headers: version, allow: [400, 404, 409] })
  },
}

async function pollBatch(id: unknown, connection: ProviderConnection): Promise<unknown> {
  const { json } = await connection.send({ method: 'GET', path: `${path}/${id}`, headers: version })
  return json
}

/**
 * The path of the results. The reference says that it may change, so it is taken from `results_url`; the origin is not,
 * because the API key is sent with the request.
 */
function pathOf(resultsUrl: string, { baseUrl }: ProviderConnection): string {
  const url = URL.parse(resultsUrl)
  if (!url?.pathname.startsWith('/')) throw invalidResponse('its `results_url` is no URL')
  const prefix = new URL(baseUrl).pathname.replace(/\/$/, '')
  const relativePath = url.pathname.startsWith(`${prefix}/`) ? url.pathname.slice(prefix.length) : url.pathname
  return relativePath + url.search
}

/** The result in one line of the result file. */
function outcomeOf(line: unknown): BatchOutcome {
  const result = valueAt(line, 'result')
  const type = valueAt(result, 'type')
  if (type === 'succeeded') return { json: valueAt(result, 'message') }
  if (type === 'errored') return { error: batchFailure(valueAt(result, 'error')) }
  if (type === 'expired') return { error: batchExpired() }
  if (type === 'canceled') return { error: batchCancelled() }
  return { error: invalidResponse('a result has an unknown `type`') }
}
