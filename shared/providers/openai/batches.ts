import type { DirectKind } from '../../kinds/index.ts'
import { type BatchOutcome, batchAnswers, batchCancelled, batchExpired } from '../batch-answers.ts'
import {
  type BatchAdapter,
  type DirectAdapter,
  ProviderError,
  type ProviderLine,
  type Source,
  type Target,
} from '../contract.ts'
import { at, handle, invalid, isObject, list, optionalAmount, optionalNumber, optionalText, text } from '../fields.ts'
import { chat } from './chat.ts'
import { completion } from './completion.ts'
import { embedding } from './embedding.ts'
import { failure, reportedFailure } from './failure.ts'

const adapters: { [K in DirectKind]: DirectAdapter<K> } = { chat, completion, embedding }
const endpoints: Record<DirectKind, string> = {
  chat: '/v1/chat/completions',
  completion: '/v1/completions',
  embedding: '/v1/embeddings',
}

/** How long OpenAI keeps our files: a batch takes a day, and this gateway may be down for some. */
const kept = { anchor: 'created_at', seconds: 7 * 24 * 60 * 60 }
/** The entry of a batch's metadata that says whose it is. */
const ownName = 'headgate_batch'
/** The newest batches come first, and one that is looked for has just been started. */
const mostPages = 10

/** The states of a batch (platform.openai.com/docs/guides/batch), and whether it is over in them. */
const isOver: ReadonlyMap<string, boolean> = new Map([
  ['validating', false],
  ['in_progress', false],
  ['finalizing', false],
  ['cancelling', false],
  ['completed', true],
  ['expired', true],
  ['cancelled', true],
])

/**
 * `POST /files` and `POST /batches`. A file that OpenAI finds fault with as a whole, a full queue included, was not run at
 * all: `check` then throws `invalid_request` in its words, without the status that a failed look has.
 */
export const batch: BatchAdapter = {
  most: { requests: 50_000, bytes: 200_000_000 },
  file: { contentType: 'application/jsonl', before: '', between: '\n', after: '\n' },
  entry(kind, id, call) {
    // Without the caller's own bytes, which may have line ends between their fields.
    const whole = { ...call, target: inBatch(call.target), raw: null, body: { ...call.body, stream: undefined } }
    const { body } = adapters[kind].request(whole)
    return `{"custom_id":${JSON.stringify(id)},"method":"POST","url":"${endpoints[kind]}","body":${body}}`
  },
  async start(file, { kind, batchId }, line) {
    const { json } = await line.send({
      method: 'POST',
      path: '/batches',
      json: {
        input_file_id: await uploaded(file, line),
        endpoint: endpoints[kind],
        completion_window: '24h',
        metadata: { [ownName]: batchId },
        output_expires_after: kept,
      },
    })
    return { id: handle(json, 'id') }
  },
  async find(batchId, line) {
    let path = '/batches?limit=100'
    for (let page = 0; page < mostPages; page++) {
      const { json } = await line.send({ method: 'GET', path })
      const batches = list(json, 'data')
      const own = batches.find(one => at(one, `metadata.${ownName}`) === batchId)
      if (own) return { id: handle(own, 'id') }
      if (at(json, 'has_more') !== true) return null
      path = `/batches?limit=100&after=${handle(batches.at(-1), 'id')}`
    }
    return null
  },
  async check({ id }, line) {
    const { json } = await line.send({ method: 'GET', path: `/batches/${id}` })
    const status = text(json, 'status')
    if (status === 'failed')
      throw new ProviderError('invalid_request', reportedFailure({ error: at(json, 'errors.data.0') }).message)
    const over = isOver.get(status)
    if (over === undefined) throw invalid('it has an unknown `status`')
    const count = (name: string) => optionalAmount(json, `request_counts.${name}`) ?? 0
    return { over, completed: count('completed'), failed: count('failed') }
  },
  async *results({ id }, line) {
    const { json } = await line.send({ method: 'GET', path: `/batches/${id}` })
    for (const name of ['output_file_id', 'error_file_id']) {
      if (optionalText(json, name) === null) continue
      const path = `/files/${handle(json, name)}/content`
      const { stream } = await line.stream({ method: 'GET', path, headers: { accept: 'application/binary' } })
      yield* batchAnswers(stream, outcomeOf)
    }
  },
  async cancel({ id }, line) {
    // One that is over, or gone, has nothing left to stop.
    await line.send({ method: 'POST', path: `/batches/${id}/cancel`, allow: [400, 404, 409] })
  },
}

/** A batch has a tier of its own: its requests name none. */
function inBatch(target: Target): Target {
  const { service_tier: _tier, ...quirks } = target.provider.quirks ?? {}
  return { ...target, provider: { ...target.provider, quirks } }
}

/** The id of the uploaded file. Nothing runs before there is a batch: a failure until then is known to have had no effect. */
async function uploaded(file: Source, line: ProviderLine): Promise<string> {
  try {
    const { json } = await line.send({
      method: 'POST',
      path: '/files',
      parts: [
        { name: 'purpose', value: 'batch' },
        { name: 'expires_after[anchor]', value: kept.anchor },
        { name: 'expires_after[seconds]', value: String(kept.seconds) },
        { name: 'file', file },
      ],
    })
    return handle(json, 'id')
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

/** One line of the output file or of the error file. */
function outcomeOf(line: unknown): BatchOutcome {
  const status = optionalNumber(line, 'response.status_code')
  if (status !== null) {
    const body = at(line, 'response.body')
    return status >= 200 && status <= 299 ? { json: body } : { error: failure(status, {}, JSON.stringify(body)) }
  }
  const error = at(line, 'error')
  const code = at(error, 'code')
  if (code === 'batch_expired') return { error: batchExpired() }
  if (code === 'batch_cancelled') return { error: batchCancelled() }
  return {
    error: isObject(error) ? reportedFailure({ error }) : invalid('a result has neither an answer nor an error'),
  }
}
