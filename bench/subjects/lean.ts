// A proxy with limits and money, but without the rest: Koa, one Redis script for the admission of all requests of an event-loop
// turn and one for the settlement of those that ended, the request and the answer passed on as the bytes they are. It checks
// the key, rpm and tpm, the monthly cap and the wallet, reserves, settles and appends a usage event. It has no validation, no
// routing, no failover, no request log and none of the gateway's response headers: it tells how much of the gateway's cost is
// the price of the rules themselves. `node bench/subjects/lean.ts --port 20001 --upstream http://… --redis redis://…`
import { hash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import Koa from 'koa'
import type { Dispatcher } from 'undici'
import { readOptions } from '../lib/options.ts'
import { openUpstreamPool } from '../lib/upstream-pool.ts'

type Reply = { code: number; organisation: string }
type Usage = { prompt_tokens: number; completion_tokens: number }
type Admission = { args: (string | number)[]; resolve(reply: Reply): void; reject(error: Error): void }

const { values } = readOptions({ port: 0, upstream: '', redis: '' })
const secret = 'lean'
const keyPrefix = 'lean:key:'
const usageStream = 'lean:usage'
const unlimited = 1e15
const priceMicroUsd = { input: 0.15, output: 0.6 }
const settleWithinMs = 2
const maxSettled = 256
const usageMark = Buffer.from('"usage":{')

const redis = new Redis(values.redis)
redis.defineCommand('admitMany', { numberOfKeys: 0, lua: script('lean-admit') })
redis.defineCommand('settleMany', { numberOfKeys: 1, lua: script('lean-settle') })
const scripts = redis as Redis & {
  admitMany(...args: (string | number)[]): Promise<(string | number)[]>
  settleMany(...args: (string | number)[]): Promise<number>
}
const pool = openUpstreamPool(values.upstream)

function script(name: string): string {
  return readFileSync(join(import.meta.dirname, `${name}.lua`), 'utf8')
}

/** `YYYYMMDDHHMM`. */
function minuteOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 16).replace(/\D/g, '')
}

let arrivals: Admission[] = []

function admit(args: (string | number)[]): Promise<Reply> {
  return new Promise((resolve, reject) => {
    arrivals.push({ args, resolve, reject })
    if (arrivals.length === 1) setImmediate(admitAll)
  })
}

function admitAll(): void {
  const admissions = arrivals
  arrivals = []
  const nowMs = Date.now()
  scripts.admitMany(nowMs, minuteOf(nowMs), ...admissions.flatMap(({ args }) => args)).then(
    replies => {
      for (const [i, { resolve }] of admissions.entries())
        resolve({ code: Number(replies[2 * i]), organisation: String(replies[2 * i + 1]) })
    },
    error => {
      for (const { reject } of admissions) reject(error)
    },
  )
}

let ended: (string | number)[][] = []

function settle(args: (string | number)[]): void {
  ended.push(args)
  if (ended.length === 1) setTimeout(settleAll, settleWithinMs)
  else if (ended.length === maxSettled) settleAll()
}

function settleAll(): void {
  const settlements = ended
  ended = []
  if (settlements.length === 0) return
  const nowMs = Date.now()
  scripts
    .settleMany(usageStream, minuteOf(nowMs), nowMs, ...settlements.flat())
    .catch(error => console.error(`settlement: ${error.message}`))
}

/** The usage that the last part of an answer reports; null when there is none in it. */
function usageIn(bytes: Buffer): Usage | null {
  const at = bytes.lastIndexOf(usageMark)
  if (at < 0) return null
  const [input, output] = [/"prompt_tokens":(\d+)/, /"completion_tokens":(\d+)/].map(counter =>
    Number(counter.exec(bytes.toString('latin1', at))?.[1] ?? 0),
  )
  return { prompt_tokens: input!, completion_tokens: output! }
}

/** Passes an answer on; a chunk of a stream leaves in one write, framed here. */
function relay(response: ServerResponse, body: Buffer, stream: boolean): Promise<Usage | null> {
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | null = null
    let usage: Usage | null = null
    let status = 502
    const parts: Buffer[] = []
    response.on('close', () => {
      if (!response.writableFinished) controller?.abort(new Error('the client went away'))
    })
    const headers = ['content-type', 'application/json', 'authorization', 'Bearer upstream']
    pool.dispatch(
      { path: '/v1/chat/completions', method: 'POST', headers, body },
      {
        onRequestStart(started) {
          controller = started
        },
        onResponseStart(_, statusCode, { 'content-type': type }) {
          status = statusCode
          if (!stream) return
          response.writeHead(status, { 'content-type': String(type), 'cache-control': 'no-cache' })
          response.flushHeaders()
        },
        onResponseData(running, chunk) {
          if (!stream) return void parts.push(chunk)
          usage = usageIn(chunk) ?? usage
          const { socket } = response
          if (!socket || socket.write(`${chunk.length.toString(16)}\r\n${chunk.toString('latin1')}\r\n`, 'latin1'))
            return
          running.pause()
          socket.once('drain', () => running.resume())
        },
        onResponseEnd() {
          if (stream) {
            response.end()
            return resolve(usage)
          }
          const bytes = parts.length === 1 ? parts[0]! : Buffer.concat(parts)
          response.writeHead(status, ['content-type', 'application/json', 'content-length', String(bytes.length)])
          response.end(bytes.toString('latin1'), 'latin1')
          resolve(usageIn(bytes))
        },
        onResponseError(_, error) {
          response.destroy()
          reject(error)
        },
      },
    )
  })
}

function readBody(request: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => resolve(parts.length === 1 ? parts[0]! : Buffer.concat(parts)))
    request.on('error', reject)
  })
}

const costOf = (input: number, output: number) => Math.ceil(input * priceMicroUsd.input + output * priceMicroUsd.output)
const instance = randomBytes(6).toString('hex')
let served = 0

const app = new Koa({ proxy: false })
app.use(async context => {
  const { authorization = '' } = context.req.headers
  if (!authorization.startsWith('Bearer ')) context.throw(401)
  const raw = await readBody(context.req)
  const body = JSON.parse(raw.toString())
  const startedMs = Date.now()
  const key = keyPrefix + hash('sha256', authorization.slice('Bearer '.length), 'hex')
  const id = `${instance}${served++}`
  const input = Math.ceil(raw.length / 4)
  const output = body.max_tokens ?? 256
  const reserved = costOf(input, output)
  const { code, organisation } = await admit([key, id, input + output, reserved, body.model, 'chat'])
  if (code !== 200) context.throw(code)
  context.respond = false
  const usage = await relay(context.res, raw, body.stream === true)
  const used = usage ?? { prompt_tokens: 0, completion_tokens: 0 }
  const cost = costOf(used.prompt_tokens, used.completion_tokens)
  const counted = [input + output, used.prompt_tokens, used.completion_tokens]
  settle([key, organisation, id, reserved, cost, ...counted, body.model, 200, Date.now() - startedMs])
})

const limits = { rpm: unlimited, tpm: unlimited, cap: unlimited }
await redis.hset(keyPrefix + hash('sha256', secret, 'hex'), {
  organisation: 'lean',
  status: 'active',
  scopes: '*',
  ...limits,
})
await redis.hset('lean:wallet:lean', { balance: unlimited, held: 0 })
createServer({ noDelay: true, keepAliveTimeout: 75_000 }, app.callback()).listen({
  host: '127.0.0.1',
  port: values.port,
  backlog: 4096,
})
process.on('SIGTERM', () => process.exit(0)) // An orderly exit: a CPU profile is written only then.
