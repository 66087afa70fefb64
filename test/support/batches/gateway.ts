import { call, eventually } from '../gateway.ts'

/** A client's connection: the address of a web process, and its key. */
export type Door = { url: string; key: string }

/** The fields of a batch that tests look at, as its GET returns them. */
export type BatchObject = {
  id: string
  status: string
  input_file_id: string
  output_file_id: string | null
  error_file_id: string | null
  errors: {
    object: 'list'
    data: { code: string; line: number | null; message: string; param: string | null }[]
  } | null
  request_counts: { total: number; completed: number; failed: number }
  cost_usd: number | null
}

/** One line of an output or error file. */
export type ResultLine = {
  id: string
  custom_id: string
  // biome-ignore lint/suspicious/noExplicitAny: answers and errors of every endpoint
  response: { status_code: number; request_id: string; body: any } | null
  error: { code: string; message: string } | null
}
export type Results = { output: ResultLine[]; errors: ResultLine[] }

const terminal = ['completed', 'failed', 'expired', 'cancelled']

/** A request for a chat completion as a line of a batch has it; `more` adds to its body. */
export function chatLine(customId: string, model: string, content: string, more: object = {}) {
  const body = { model, messages: [{ role: 'user', content }], ...more }
  return { custom_id: customId, method: 'POST', url: '/v1/chat/completions', body }
}

/** The text of a JSON Lines file. */
export function jsonLines(values: readonly unknown[]): string {
  return values.map(value => `${JSON.stringify(value)}\n`).join('')
}

/** Uploads the input of a batch; gives the file's id. Throws an Error with the answer when it is refused. */
export async function uploadInput({ url, key }: Door, text: string, filename = 'input.jsonl'): Promise<string> {
  const form = new FormData()
  form.set('purpose', 'batch')
  form.set('file', new Blob([text]), filename)
  const headers = { authorization: `Bearer ${key}` }
  const file = await answered<{ id: string }>(await fetch(`${url}/v1/files`, { method: 'POST', headers, body: form }))
  return file.id
}

/** Creates a batch of chat completions; `more` adds to the request. Throws an Error with the answer when it is refused. */
export async function createBatch({ url, key }: Door, inputFileId: string, more: object = {}): Promise<BatchObject> {
  const body = {
    input_file_id: inputFileId,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
    ...more,
  }
  return answered(await call(url, '/v1/batches', { key, body }))
}

/** Asks that a batch be cancelled. */
export async function cancelBatch({ url, key }: Door, id: string): Promise<BatchObject> {
  return answered(await call(url, `/v1/batches/${id}/cancel`, { key, method: 'POST' }))
}

export async function batchOf({ url, key }: Door, id: string): Promise<BatchObject> {
  return answered(await call(url, `/v1/batches/${id}`, { key }))
}

/** Waits until a batch is over, also while the gateway cannot say. */
export async function ended(door: Door, id: string, withinMs = 60_000): Promise<BatchObject> {
  let batch: BatchObject | null = null
  const isOver = async () => {
    batch = await batchOf(door, id).catch(() => null)
    return batch !== null && terminal.includes(batch.status)
  }
  await eventually(isOver, `batch ${id} is over`, withinMs)
  return batch!
}

/** Both files of a batch that is over. */
export async function resultsOf(door: Door, batch: BatchObject): Promise<Results> {
  const [output, errors] = await Promise.all([
    linesOfFile(door, batch.output_file_id),
    linesOfFile(door, batch.error_file_id),
  ])
  return { output, errors }
}

async function linesOfFile({ url, key }: Door, fileId: string | null): Promise<ResultLine[]> {
  if (fileId === null) return []
  const response = await call(url, `/v1/files/${fileId}/content`, { key })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status}: ${text}`)
  return text
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line))
}

/** What is wrong with two files that must have each of these requests exactly once; one line per fault. */
export function lineFaults(customIds: Iterable<string>, { output, errors }: Results): string[] {
  const times = new Map<string, number>()
  for (const { custom_id } of [...output, ...errors]) times.set(custom_id, (times.get(custom_id) ?? 0) + 1)
  const faults: string[] = []
  for (const id of customIds) {
    if (times.get(id) !== 1) faults.push(`${id} is there ${times.get(id) ?? 0} times`)
    times.delete(id)
  }
  for (const id of times.keys()) faults.push(`${id} was never asked for`)
  return faults
}

/** What the lines of both files say they cost altogether, in nano-dollars: a failed one may have cost something as well. */
export function costNano({ output, errors }: Results): number {
  const answered = output.map(({ response }) => response!.body.usage.cost)
  const failed = errors.map(({ response }) => response?.body.error?.metadata?.cost_usd ?? 0)
  return [...answered, ...failed].reduce((sum, usd) => sum + Math.round(usd * 1e9), 0)
}

async function answered<T>(response: Response): Promise<T> {
  const text = await response.text()
  if (!response.ok) throw new Error(`${response.status}: ${text}`)
  return JSON.parse(text)
}
