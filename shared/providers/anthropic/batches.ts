import type { DirectKind } from '../../kinds/index.ts'
import { type BatchOutcome, batchAnswers, batchCancelled, batchExpired } from '../batch-answers.ts'
import type { BatchAdapter, DirectAdapter, ProviderLine } from '../contract.ts'
import { at, handle, invalid, optionalAmount, text } from '../fields.ts'
import { chat, version } from './chat.ts'
import { unsupported } from './content.ts'
import { errorFrom } from './failure.ts'

const path = '/v1/messages/batches'
const adapters: { [K in DirectKind]?: DirectAdapter<K> } = { chat }

/** The whole file is read before the answer. */
const firstByteMs = 5 * 60_000

/** The states of a batch (its `processing_status` in the API reference), and whether it is over in them. */
const isOver: ReadonlyMap<string, boolean> = new Map([
  ['in_progress', false],
  ['canceling', false],
  ['ended', true],
])

/**
 * `POST /v1/messages/batches`. A batch has no name of ours, so one whose start got no answer cannot be found. Requests are
 * validated as they are run: what is wrong with one is its own answer. Until the batch has ended all counts are 0.
 */
export const batch: BatchAdapter = {
  most: { requests: 100_000, bytes: 256_000_000 },
  file: { contentType: 'application/json', before: '{"requests":[', between: ',', after: ']}' },
  entry(kind, id, call) {
    const adapter = adapters[kind]
    if (!adapter) throw unsupported('model', 'the provider has no batches of this kind')
    const { body } = adapter.request({ ...call, raw: null, body: { ...call.body, stream: undefined } })
    return `{"custom_id":${JSON.stringify(id)},"params":${body}}`
  },
  async start(file, _about, line) {
    const { json } = await line.send({ method: 'POST', path, headers: version, file, firstByteMs })
    return { id: handle(json, 'id') }
  },
  async check({ id }, line) {
    const json = await look(id, line)
    const over = isOver.get(text(json, 'processing_status'))
    if (over === undefined) throw invalid('it has an unknown `processing_status`')
    const count = (name: string) => optionalAmount(json, `request_counts.${name}`) ?? 0
    return { over, completed: count('succeeded'), failed: count('errored') }
  },
  async *results({ id }, line) {
    const { stream } = await line.stream({
      method: 'GET',
      path: pathOf(text(await look(id, line), 'results_url'), line),
      headers: { ...version, accept: 'application/binary' },
    })
    yield* batchAnswers(stream, outcomeOf)
  },
  async cancel({ id }, line) {
    // One that has ended, or is gone, has nothing left to stop.
    await line.send({ method: 'POST', path: `${path}/${id}/cancel`, headers: version, allow: [400, 404, 409] })
  },
}

async function look(id: unknown, line: ProviderLine): Promise<unknown> {
  const { json } = await line.send({ method: 'GET', path: `${path}/${id}`, headers: version })
  return json
}

/**
 * Where the results are at the provider's own address. The reference says that their path may change, so it is taken from
 * `results_url`; its origin is not, as the API key goes with the request.
 */
function pathOf(resultsUrl: string, { baseUrl }: ProviderLine): string {
  const url = URL.parse(resultsUrl)
  if (!url?.pathname.startsWith('/')) throw invalid('its `results_url` is no URL')
  const prefix = new URL(baseUrl).pathname.replace(/\/$/, '')
  const own = url.pathname.startsWith(`${prefix}/`) ? url.pathname.slice(prefix.length) : url.pathname
  return own + url.search
}

/** One line of the results. */
function outcomeOf(line: unknown): BatchOutcome {
  const result = at(line, 'result')
  const type = at(result, 'type')
  if (type === 'succeeded') return { json: at(result, 'message') }
  if (type === 'errored') return { error: errorFrom(at(result, 'error.error')) }
  if (type === 'expired') return { error: batchExpired() }
  if (type === 'canceled') return { error: batchCancelled() }
  return { error: invalid('a result has an unknown `type`') }
}
