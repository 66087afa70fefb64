// What Node itself costs: node:http in, undici's lowest level out, bytes relayed as they are, no logic of any kind.
// `node bench/subjects/bare.ts --port 20001 --upstream http://127.0.0.1:20000`
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Dispatcher } from 'undici'
import { readOptions } from '../lib/options.ts'
import { openUpstreamPool } from '../lib/upstream-pool.ts'

const { values } = readOptions({ port: 0, upstream: '' })
const pool = openUpstreamPool(values.upstream)

function relay(path: string, body: Buffer, response: ServerResponse): void {
  const headers = { 'content-type': 'application/json', authorization: 'Bearer upstream' }
  let controller: Dispatcher.DispatchController | null = null
  response.on('close', () => {
    if (!response.writableFinished) controller?.abort(new Error('the client went away'))
  })
  pool.dispatch(
    { path, method: 'POST', headers, body },
    {
      onRequestStart(started) {
        controller = started
      },
      onResponseStart(_, status, { 'content-type': type, 'content-length': length }) {
        response.writeHead(status, {
          'content-type': String(type),
          ...(length && { 'content-length': String(length) }),
        })
      },
      onResponseData(running, chunk) {
        if (response.write(chunk)) return
        running.pause()
        response.once('drain', () => running.resume())
      },
      onResponseEnd: () => void response.end(),
      onResponseError: () => void response.destroy(),
    },
  )
}

function serve(request: IncomingMessage, response: ServerResponse): void {
  const parts: Buffer[] = []
  request.on('data', (part: Buffer) => parts.push(part))
  request.on('end', () => relay(request.url!, parts.length === 1 ? parts[0]! : Buffer.concat(parts), response))
}

createServer({ noDelay: true, keepAliveTimeout: 75_000 }, serve).listen({
  host: '127.0.0.1',
  port: values.port,
  backlog: 4096,
})
process.on('SIGTERM', () => process.exit(0)) // An orderly exit: a CPU profile is written only then.
