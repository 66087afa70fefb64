import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { Pool } from 'undici'
import { collect, type ExchangeError, exchange, isOwnFault, openPool } from '../../shared/io/http.ts'
import { type ExecutionContext, test } from '../support/test.ts'

const timeouts = { connectTimeoutMs: 5_000, firstByteTimeoutMs: 5_000, idleTimeoutMs: 5_000, totalTimeoutMs: 30_000 }

/** A server that answers everything with `body`, and a pool of connections to it. */
async function startServer(t: ExecutionContext, coding: string, body: Buffer) {
  const server = http.createServer((_request, response) => {
    const headers = coding === 'gzip' ? { 'content-encoding': 'gzip' } : {}
    response.writeHead(200, headers).end(coding === 'gzip' ? gzipSync(body) : body)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close())
  const pool = openPool(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, timeouts, 1)
  t.teardown(() => pool.destroy())
  return pool
}

for (const coding of ['identity', 'gzip'])
  for (const callback of ['onHead', 'onData', 'onEnd'] as const)
    test(`ended with the error: an exchange whose ${callback} throws (${coding})`, async t => {
      const pool = await startServer(t, coding, Buffer.from('an answer'))
      const ended = Promise.withResolvers<Error>()
      const sink = { onHead() {}, onData() {}, onEnd: () => ended.reject(new Error('it ended')) }
      const fail = () => {
        throw new Error('not understood')
      }
      exchange(pool, { method: 'GET', path: '/', headers: {}, body: null }, timeouts, {
        ...sink,
        [callback]: fail,
        onError: (_fault, error) => ended.resolve(error),
      })
      t.is((await ended.promise).message, 'not understood')
    })

for (const coding of ['identity', 'gzip'])
  test(`paused: an exchange that was paused before its response, until it is resumed (${coding})`, async t => {
    const body = Buffer.alloc(64 * 1024, 'x')
    const pool = await startServer(t, coding, body)
    const [head, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    let bytes = 0
    const request = { method: 'GET', path: '/', headers: {}, body: null } as const
    const running = exchange(pool, request, timeouts, {
      onHead: () => head.resolve(),
      onData: chunk => {
        bytes += chunk.length
      },
      onEnd: () => end.resolve(),
      onError: (_fault, error) => end.reject(error),
    })
    running.pause()
    await head.promise
    for (let turn = 0; turn < 20; turn++) await nextTurn()
    t.is(bytes, 0)
    running.resume()
    await end.promise
    t.is(bytes, body.length)
  })

const failed = (code: string, syscall: string) => Object.assign(new Error(`${syscall} ${code}`), { code, syscall })
const connectFailures: [what: string, error: Error, own: boolean][] = [
  ['EMFILE', failed('EMFILE', 'connect'), true],
  ['EADDRNOTAVAIL', failed('EADDRNOTAVAIL', 'connect'), true],
  ['EAI_AGAIN', failed('EAI_AGAIN', 'getaddrinfo'), false],
  ['ETIMEDOUT', failed('ETIMEDOUT', 'connect'), false],
  ['ECONNRESET', new Error('Client network socket disconnected before secure TLS connection was established'), false],
  ['every address', new AggregateError([failed('ETIMEDOUT', 'connect'), failed('ENETUNREACH', 'connect')]), false],
]

for (const [what, error, own] of connectFailures)
  test(`unsent: a request for which there was no connection (${what})`, async t => {
    const pool = new Pool('http://127.0.0.1:1', { connect: (_options, done) => done(error, null) })
    t.teardown(() => pool.destroy())
    const request = { method: 'POST' as const, path: '/', headers: {}, body: 'a job' }
    const { unsent, cause } = (await t.throwsAsync(collect(pool, request, timeouts, 1_000))) as ExchangeError
    t.true(unsent)
    t.is(isOwnFault(cause), own)
  })

test('sent: a request whose connection is closed without an answer', async t => {
  const server = http.createServer(request => request.socket.destroy())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close())
  const pool = openPool(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, timeouts, 1)
  t.teardown(() => pool.destroy())
  const request = { method: 'POST' as const, path: '/', headers: {}, body: 'a job' }
  t.false(((await t.throwsAsync(collect(pool, request, timeouts, 1_000))) as ExchangeError).unsent)
})
