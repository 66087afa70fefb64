import { once } from 'node:events'
import http from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { HttpResponse } from '../../api/http-response.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { Emulator, json, type Reply } from '../emulators/emulator.ts'
import { type Account, eventually, startGateway } from '../support/gateway.ts'
import { connectTo, headOf, readAll } from '../support/io/raw-requests.ts'
import { answerOf } from '../support/jobs/gateway.ts'
import { png } from '../support/media/png.ts'
import { sound } from '../support/media/sounds.ts'
import { syncMediaEnvironment } from '../support/media/world.ts'
import { test } from '../support/test.ts'
import { use, useGateway, useStores } from '../support/use.ts'

let account: Account
const speech = await sound('mp3', 2)

const stores = useStores(test)
const emulator = use(test, () => Emulator.start((_request, response) => void response.end(speech)))
const gateway = useGateway(
  test,
  async () => {
    const environment = await syncMediaEnvironment(emulator.url)
    const settings = { ALLOW_PRIVATE_URLS: 'true', UPSTREAM_MAX_PAUSE_MS: '1', UPSTREAM_READ_ON_MS: '300' }
    return { ...environment, ...settings }
  },
  { stores },
)
test.beforeEach(async () => {
  emulator.reset()
  account = await gateway.account()
})

const mib = 1024 * 1024
const half = speech.subarray(0, speech.length / 2)
const speak = { model: 'speak', input: 'Say it.' }
/** 7 characters at 15 dollars a million, and 5 %. */
const speakNano = 110_250

/** Half of an answer, and then nothing until the request is closed. */
const halting: Reply = (_request, response) => void response.writeHead(200).write(half)
const breaking: Reply = (_request, response) =>
  void response.writeHead(200).write(half, () => response.socket!.destroy())

async function chargedNano(): Promise<number> {
  await gateway.services.admission.flush()
  await eventually(async () => (await gateway.services.redis.xlen('usage')) === 0, 'everything is booked')
  const where = { organisationId: account.organisationId, kind: 'charge' as const }
  const { _sum } = await gateway.services.db.ledgerEntry.aggregate({ where, _sum: { amountNano: true } })
  return Number(0n - (_sum.amountNano ?? 0n))
}

async function countFiles(): Promise<number> {
  return gateway.services.db.file.count({ where: { organisationId: account.organisationId } })
}

test.serial(
  '499 and billed: sound under an Idempotency-Key that its client did not wait for and that was not finished is never replayed',
  async t => {
    emulator.next(halting)
    const left = new AbortController()
    const options = { key: account.live, body: speak, headers: { 'idempotency-key': 'left' } }
    const gone = gateway.fetch('/v1/audio/speech', { ...options, signal: left.signal })
    await eventually(() => emulator.requests.length === 1, 'the provider is asked')
    await turn()
    left.abort()
    await t.throwsAsync(gone)
    await emulator.requests[0]!.aborted
    const { db } = gateway.services
    const where = { organisationId: account.organisationId }
    await eventually(async () => (await db.idempotencyKey.count({ where })) === 0, 'nothing is kept')
    t.is(await chargedNano(), speakNano)
    const again = await gateway.fetch('/v1/audio/speech', options)
    t.is(again.headers.get('idempotent-replayed'), null)
    t.true(Buffer.from(await again.arrayBuffer()).equals(speech))
    t.is(await chargedNano(), 2 * speakNano)
  },
)

test.serial('200 the same sound again under one Idempotency-Key, 409 for another text or while it is made', async t => {
  const headers = { 'idempotency-key': 'again' }
  const { promise, resolve } = Promise.withResolvers<void>()
  emulator.next(async (_request, response) => {
    await promise
    response.end(speech)
  })
  const first = gateway.fetch('/v1/audio/speech', { key: account.live, body: speak, headers })
  await eventually(() => emulator.requests.length === 1, 'the provider is asked')
  const meanwhile = await gateway.fetch('/v1/audio/speech', { key: account.live, body: speak, headers })
  t.is((await answerOf(meanwhile)).error.code, 'idempotency_in_progress')
  resolve()
  const whole = await first
  t.is(whole.headers.get('content-type'), 'audio/mpeg')
  t.true(Buffer.from(await whole.arrayBuffer()).equals(speech))
  const again = await gateway.fetch('/v1/audio/speech', { key: account.live, body: speak, headers })
  t.is(again.headers.get('idempotent-replayed'), 'true')
  t.is(again.headers.get('content-type'), 'audio/mpeg')
  t.is(again.headers.get('x-gateway-cost-usd'), whole.headers.get('x-gateway-cost-usd'))
  t.true(Buffer.from(await again.arrayBuffer()).equals(speech))
  const other = await gateway.fetch('/v1/audio/speech', {
    key: account.live,
    body: { ...speak, input: 'No.' },
    headers,
  })
  t.is((await answerOf(other)).error.code, 'idempotency_key_reused')
  t.is(await chargedNano(), speakNano)
})

const image = png(8)
test.serial('401 and nothing is billed when the key is revoked while its reference is fetched', async t => {
  const { promise, resolve } = Promise.withResolvers<void>()
  emulator.next(async (_request, response) => {
    await promise
    response.end(image)
  })
  const body = { model: 'draw', prompt: 'x', input_references: [`${emulator.url}/a.png`] }
  const asked = gateway.fetch('/v1/images', { key: account.live, body })
  await eventually(() => emulator.requests.length === 1, 'the reference is fetched')
  await gateway.services.keys.revoke(account.organisationId, hashSecret(account.live), operatorActor)
  resolve()
  t.is((await answerOf(await asked)).error.code, 'revoked_api_key')
  t.is(emulator.requests.length, 1)
  t.is(await countFiles(), 0)
  t.is(await chargedNano(), 0)
})

test.serial('502 sound that breaks off is no whole one without chunks either', async t => {
  emulator.next(breaking)
  const body = JSON.stringify(speak)
  const socket = await connectTo(gateway.url)
  const more = { 'content-type': 'application/json', 'content-length': body.length }
  socket.write(headOf('/v1/audio/speech', account.live, more, '1.0') + body)
  await t.throwsAsync(readAll(socket), { code: 'ECONNRESET' })
  t.is(await chargedNano(), 0)
})

test.serial('499 a client that takes nothing any more has left', async t => {
  const { promise, resolve } = Promise.withResolvers<HttpResponse>()
  const server = http.createServer((_request, response) =>
    resolve(new HttpResponse(response, {}, { stalledMs: 50, leaveMs: 60_000, bytesPerMs: 32 })),
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.on('error', () => {})
  socket.pause().write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  const client = await promise
  client.open({ 'content-type': 'audio/mpeg' })
  const fill = () => {
    while (client.send(Buffer.alloc(mib)));
    client.onDrain(fill)
  }
  fill()
  await new Promise<void>(gone => client.onGone(gone))
  t.true(client.gone)
  socket.destroy()
  server.close()
})

test.serial('200 a provider is held back by a client that does not read, and all of it comes once it does', async t => {
  const maxBytes = 96 * mib
  let sentBytes = 0
  emulator.next(async (_request, response) => {
    response.writeHead(200)
    for (; sentBytes < maxBytes; sentBytes += block.length) if (!response.write(block)) await once(response, 'drain')
    response.end()
  })
  const block = Buffer.concat(Array.from({ length: 64 }, () => speech))
  const body = JSON.stringify(speak)
  const socket = await connectTo(gateway.url)
  socket.pause()
  const more = { 'content-type': 'application/json', 'content-length': body.length, connection: 'close' }
  socket.write(headOf('/v1/audio/speech', account.live, more) + body)
  await stands(() => sentBytes)
  t.true(sentBytes > 0 && sentBytes < maxBytes / 4, `${sentBytes} bytes were accepted although the client read none`)
  let readBytes = 0
  for await (const bytes of socket) readBytes += bytes.length
  t.true(readBytes > sentBytes)
  t.is(await chargedNano(), speakNano)
})

/** Waits until a number has not changed for a while. */
async function stands(number: () => number): Promise<void> {
  let [last, looks] = [-1, 0]
  await eventually(() => {
    looks = number() > 0 && number() === last ? looks + 1 : 0
    last = number()
    return looks > 25
  }, 'nothing moves any more')
}

/** fal's queue: work that is done at once, with these files. */
function queue(files: string[]): void {
  const urls = files.map(file => ({ url: `${emulator.url}/${file}` }))
  emulator.next(
    json(200, { request_id: 'one' }),
    json(200, { status: 'COMPLETED' }),
    json(200, { images: urls, audio: urls[0] }),
  )
}

test.serial('200 the images that can be fetched are answered and billed, without those that cannot', async t => {
  queue(['good', 'missing'])
  emulator.next(
    ...[0, 1].map<Reply>(() => (request, response) => {
      if (request.path === '/good') response.end(image)
      else response.writeHead(404).end()
    }),
  )
  const body = { model: 'draw-many', prompt: 'x', n: 2 }
  const answer = await answerOf(await gateway.fetch('/v1/images', { key: account.live, body }))
  t.is(answer.data?.length, 1, JSON.stringify(answer))
  t.is(await chargedNano(), 42_000_000)
})

test.serial('499 a client that disconnects closes the download of a provider’s file, too', async t => {
  queue(['sound.mp3'])
  emulator.next((_request, response) => void response.writeHead(200).write(speech.subarray(0, 20)))
  const left = new AbortController()
  const body = { model: 'effect', prompt: 'x' }
  const gone = gateway.fetch('/v1/audio/sfx', { key: account.live, body, signal: left.signal })
  await eventually(() => emulator.requests.length === 4, 'the file is fetched')
  left.abort()
  await t.throwsAsync(gone)
  await emulator.requests[3]!.aborted
  t.is(await chargedNano(), 52_500_000, 'the effect was made')
})

test.serial('402 for speech of one price that the wallet cannot pay, before any provider is called', async t => {
  const { live: key } = await gateway.account({ usd: '0.03' })
  const answer = await gateway.fetch('/v1/audio/speech', { key, body: { ...speak, model: 'speak-flat' } })
  t.is((await answerOf(answer)).error.code, 'insufficient_credits')
  t.is(emulator.requests.length, 0)
})

test.serial('503 when the storage is away, not 500', async t => {
  const away = await startGateway(stores, {
    STORAGE_URL: 's3://key:secret@bucket?endpoint=http://127.0.0.1:1&path_style=true',
  })
  try {
    const { test: key } = await away.account()
    const body = { model: 'gpt-image-2', prompt: 'x', response_format: 'url' }
    const answer = await away.fetch('/v1/images', { key, body })
    t.is((await answerOf(answer)).error.code, 'service_unavailable')
    t.is(answer.status, 503)
  } finally {
    await away.close()
  }
})
