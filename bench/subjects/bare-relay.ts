// What Node and ws themselves cost: every message of one side is sent to the other, closes are passed on, no logic of any
// kind. `node bench/subjects/bare-relay.ts --port 20001 --upstream http://127.0.0.1:20000`
import { createServer } from 'node:http'
import { WebSocket, WebSocketServer } from 'ws'
import { readOptions } from '../lib/options.ts'

const { values } = readOptions({ port: 0, upstream: '' })
const headers = { authorization: 'Bearer upstream' }
const sockets = new WebSocketServer({ noServer: true, clientTracking: false, perMessageDeflate: false })

function pass(from: WebSocket, to: WebSocket): void {
  from.on('message', (data, binary) => to.send(data, { binary }))
  from.on('close', () => to.close())
  from.on('error', () => to.terminate())
}

createServer()
  .on('upgrade', (request, socket, head) => {
    const upstream = new WebSocket(values.upstream + request.url, { headers, perMessageDeflate: false })
    upstream.once('error', () => socket.destroy())
    upstream.once('open', () =>
      sockets.handleUpgrade(request, socket, head, client => {
        pass(client, upstream)
        pass(upstream, client)
      }),
    )
  })
  .listen({ host: '127.0.0.1', port: values.port, backlog: 4096 })
process.on('SIGTERM', () => process.exit(0)) // An orderly exit: a CPU profile is written only then.
