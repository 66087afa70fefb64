import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Source } from '../../../shared/providers/contract.ts'
import { sourceOf } from '../jobs/sources.ts'

const MiB = 1024 * 1024

/** A provider whose bytes are counted: it creates whatever is posted, and its one batch is over. */
export type StreamingProvider = {
  url: string
  receivedBytes(): number
  /** How the sending of results came to its end. */
  ended: Promise<'sent' | 'left'>
  close(): Promise<void>
}

/** `results` gives the text of the file of results, piece by piece; when it throws, the connection breaks. */
export async function startStreamingProvider(
  results: () => AsyncIterable<string> = async function* () {},
): Promise<StreamingProvider> {
  let receivedBytes = 0
  const { promise: ended, resolve } = Promise.withResolvers<'sent' | 'left'>()
  const send = (response: http.ServerResponse) => {
    response.once('close', () => resolve(response.writableFinished ? 'sent' : 'left'))
    pipeline(Readable.from(results(), { objectMode: false }), response).catch(() => {})
  }
  const server = http.createServer(async (request, response) => {
    try {
      for await (const part of request) receivedBytes += part.length
    } catch {
      return // It was given up while it was sent.
    }
    if (/content|results/.test(request.url!)) return send(response.writeHead(200))
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(overBatch(`http://${request.headers.host}`)))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    receivedBytes: () => receivedBytes,
    ended,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** A batch that is over, in the words of every provider. */
function overBatch(url: string): object {
  const openai = { status: 'completed', output_file_id: 'file-1', error_file_id: null }
  const anthropic = { processing_status: 'ended', results_url: `${url}/v1/messages/batches/b1/results` }
  return { id: 'b1', ...openai, ...anthropic }
}

/** One line of results, in the words of every provider. */
export function resultLine(id: string, answer: unknown): string {
  const response = { status_code: 200, request_id: 'req_1', body: answer }
  return `${JSON.stringify({ id, custom_id: id, response, error: null, result: { type: 'succeeded', message: answer } })}\n`
}

/** A file of so many pieces of 1 MiB, which are made as they are read; `made` counts their bytes. */
export function largeFile(contentType: string, pieces: number): { file: Source; made(): number } {
  let made = 0
  function* content() {
    for (let piece = 0; piece < pieces; piece++) {
      made += MiB
      yield Buffer.alloc(MiB, 97)
    }
  }
  const file = sourceOf('https://files.example/requests.jsonl', contentType)
  const open = async () => Readable.from(content(), { objectMode: false })
  return { file: { ...file, bytes: pieces * MiB, open }, made: () => made }
}

/** Everything that comes. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}
