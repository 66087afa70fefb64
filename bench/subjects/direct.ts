// The least that a batch can take: its lines are read, sent by undici with so many in flight, and the answers written.
// `node bench/subjects/direct.ts --input in.jsonl --output out.jsonl --upstream http://127.0.0.1:20000 --concurrency 64`
import { createReadStream, createWriteStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { finished } from 'node:stream/promises'
import { Pool } from 'undici'
import { readOptions } from '../lib/options.ts'

const { values } = readOptions({ input: '', output: '', upstream: '', concurrency: 64, warm: 5_000 })
const headers = { 'content-type': 'application/json', authorization: 'Bearer upstream' }
const pool = new Pool(values.upstream, { connections: values.concurrency, pipelining: 1, keepAliveTimeout: 60_000 })

/** Sends the first `max` lines of the input; gives how many there were. */
async function sendAll(max: number): Promise<number> {
  const input = createReadStream(values.input)
  const output = createWriteStream(values.output)
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })[Symbol.asyncIterator]()
  let sent = 0
  const sender = async () => {
    while (sent < max) {
      const { value, done } = await lines.next()
      if (done) return
      sent++
      const { custom_id, url, body } = JSON.parse(value)
      const response = await pool.request({ path: url, method: 'POST', headers, body: JSON.stringify(body) })
      const answer = { status_code: response.statusCode, body: await response.body.json() }
      if (answer.status_code !== 200) throw new Error(`${custom_id}: ${JSON.stringify(answer)}`)
      output.write(`${JSON.stringify({ id: `batch_req_${sent}`, custom_id, response: answer, error: null })}\n`)
    }
  }
  await Promise.all(Array.from({ length: values.concurrency }, sender))
  input.destroy()
  await finished(output.end())
  return sent
}

await sendAll(values.warm)
const cpuBefore = process.cpuUsage()
const startedMs = performance.now()
const lines = await sendAll(Number.POSITIVE_INFINITY)
const seconds = (performance.now() - startedMs) / 1_000
const { user, system } = process.cpuUsage(cpuBefore)
console.log(JSON.stringify({ lines, seconds, cpuSeconds: (user + system) / 1e6 }))
await pool.close()
