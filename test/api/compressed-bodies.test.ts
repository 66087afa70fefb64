import {
  brotliCompressSync,
  constants,
  deflateRawSync,
  deflateSync,
  gunzipSync,
  gzipSync,
  zstdCompressSync,
} from 'node:zlib'
import { answersError, bodyPaths, provisioningKey, rawCall, validBodies } from '../support/api/edge.ts'
import { eventually } from '../support/gateway.ts'
import { connectTo, formOf, formType, headOf, partOf } from '../support/io/raw-requests.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const mib = 1024 * 1024

const gateway = useGateway(test, { STRIPE_SECRET_KEY: 'sk_test_x', STRIPE_WEBHOOK_SECRET: 'whsec_x' })
const account = use(test, () => gateway.account())
test.after.always('nothing of a body is held', async () => {
  const { bodies, publicBodies } = gateway.services.budgets
  await eventually(() => bodies.bytes === 0 && publicBodies.bytes === 0, 'nothing is held')
})

type Compress = (bytes: Buffer) => Buffer

/** At a quality that takes milliseconds for a megabyte, in place of a second. */
const brotli: Compress = bytes => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } })

const codings: [coding: string, compress: Compress][] = [
  ['gzip', gzipSync],
  ['x-gzip', gzipSync],
  ['GZip', gzipSync],
  ['deflate', deflateSync],
  ['deflate', deflateRawSync],
  ['br', brotli],
  ['zstd', zstdCompressSync],
  ['identity, zstd', zstdCompressSync],
  ['gzip, zstd', bytes => zstdCompressSync(gzipSync(bytes))],
  ['deflate , br,gzip', bytes => gzipSync(brotli(deflateSync(bytes)))],
]

const chat = '/v1/chat/completions'
const hello = Buffer.from(JSON.stringify(validBodies[chat]))

function post(path: string, coding: string, body: Buffer, key = account.test, more: Record<string, string> = {}) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'content-encoding': coding }
  return fetch(gateway.url + path, { method: 'POST', headers: { ...headers, ...more }, body: new Uint8Array(body) })
}

for (const [number, [coding, compress]] of codings.entries())
  test(`200 for bodies in ${coding} on every JSON route (${number})`, async t => {
    const provisioning = await provisioningKey(gateway, account.organisationId)
    for (const path of bodyPaths) {
      const key = path.startsWith('/api/') ? provisioning : account.test
      const body = compress(Buffer.from(JSON.stringify(validBodies[path])))
      const response = await post(path, coding, body, key)
      t.true(response.ok, `${path}: ${response.status} ${await response.text()}`)
    }
  })

test('200 for the same text as its bytes: a stream, JSONL of a megabyte in pieces, two frames, two members', async t => {
  const words = Array.from({ length: 100_000 }, (_, i) => `word${i}`).join(' ')
  const body = Buffer.from(JSON.stringify({ model: 'gpt-4.1', messages: [{ role: 'user', content: words }] }))
  const half = body.length / 2
  const inTwo = (compress: Compress) => Buffer.concat([compress(body.subarray(0, half)), compress(body.subarray(half))])
  const skippable = Buffer.from('502a4d1803000000010203', 'hex')
  const sent: [coding: string, bytes: Buffer][] = [
    ['gzip', inTwo(gzipSync)],
    ['zstd', inTwo(zstdCompressSync)],
    ['zstd', Buffer.concat([skippable, zstdCompressSync(body), skippable])],
    ...codings.map(([coding, compress]): [string, Buffer] => [coding, compress(body)]),
  ]
  const plain = (await (await post(chat, 'identity', body)).json()) as { usage: object }
  for (const [coding, bytes] of sent) {
    const pieces = Array.from({ length: Math.ceil(bytes.length / 999) }, (_, i) =>
      bytes.subarray(i * 999, i * 999 + 999),
    )
    const headers = {
      authorization: `Bearer ${account.test}`,
      'content-type': 'application/json',
      'content-encoding': coding,
    }
    const answer = await rawCall(gateway.url, { method: 'POST', path: chat, headers, body: pieces })
    t.is(answer.status, 200, coding)
    t.deepEqual(JSON.parse(answer.body).usage, plain.usage, coding)
  }
})

test('415 with the supported codings for another one', async t => {
  for (const coding of ['compress', 'gzip, lz4', 'snappy', 'dcz', 'gzip;q=1']) {
    const response = await post(chat, coding, gzipSync(hello))
    t.is(response.headers.get('accept-encoding'), 'gzip, deflate, br, zstd', coding)
    const { message } = await answersError(t, response, 'unsupported_media_type', null, coding)
    t.regex(message, /Content-Encoding.*gzip, deflate, br, zstd/)
  }
  await answersError(t, await post(chat, 'gzip,'.repeat(6), gzipSync(hello)), 'invalid_request', 'content-encoding')
  for (const none of ['', 'identity', 'utf-8', 'binary,aws-chunked']) t.is((await post(chat, none, hello)).status, 200)
})

test('400 naming content-encoding for damaged, truncated and trailing bytes', async t => {
  const text = Buffer.from(JSON.stringify({ ...validBodies[chat], user: 'u'.repeat(60) + Math.random() }))
  for (const [coding, compress] of codings) {
    const whole = compress(text)
    const bodies = {
      'not compressed': text,
      'cut off': whole.subarray(0, whole.length - 1),
      'cut in its head': whole.subarray(0, 2),
      'trailing garbage': Buffer.concat([whole, Buffer.from('{}')]),
      'trailing zeros': Buffer.concat([whole, Buffer.alloc(8)]),
    }
    for (const [name, body] of Object.entries(bodies))
      await answersError(t, await post(chat, coding, body), 'invalid_request', 'content-encoding', `${coding}, ${name}`)
  }
  const wide = zstdCompressSync(Buffer.alloc(mib), { params: { [constants.ZSTD_c_windowLog]: 27 } })
  // A frame of unknown size has the window of its encoder.
  const declared = Buffer.concat([Buffer.from('28b52ffd00f0', 'hex'), wide.subarray(6)])
  await answersError(t, await post(chat, 'zstd', declared), 'invalid_request', 'content-encoding')
  const frames = Buffer.concat(Array<Buffer>(5_000).fill(zstdCompressSync(Buffer.alloc(0))))
  await answersError(t, await post(chat, 'zstd', frames), 'invalid_request', 'content-encoding')
})

test('413 for a bomb before it is memory, by one coding or several', async t => {
  const zeros = Buffer.alloc(64 * mib, 0x20)
  const members = Buffer.concat(Array<Buffer>(mib).fill(gzipSync(Buffer.alloc(0))))
  const bombs: [coding: string, body: Buffer][] = [
    ['gzip', gzipSync(zeros)],
    ['deflate', deflateSync(zeros)],
    ['br', brotliCompressSync(zeros, { params: { [constants.BROTLI_PARAM_QUALITY]: 2 } })],
    ['zstd', zstdCompressSync(zeros)],
    ['zstd, gzip', gzipSync(zstdCompressSync(zeros))],
    // What it decodes to is empty, but not what is between the codings.
    ['gzip, gzip', gzipSync(members)],
  ]
  for (const [coding, body] of bombs) {
    t.true(body.length < mib)
    await answersError(t, await post(chat, coding, body), 'request_too_large', null, coding)
  }
  const webhook = { 'stripe-signature': 't=1,v1=x' }
  const response = await post('/webhooks/stripe', 'gzip', gzipSync(Buffer.alloc(2 * mib)), 'none', webhook)
  await answersError(t, response, 'request_too_large')
})

test.serial('429 for decoded bytes beyond the budget: they count as if they were sent', async t => {
  const { bodies } = gateway.services.budgets
  const held = bodies.open(account.organisationId)
  held.hold(60 * mib)
  const body = Buffer.from(JSON.stringify({ ...validBodies[chat], user: 'x'.repeat(5 * mib) }))
  await answersError(t, await post(chat, 'zstd', zstdCompressSync(body)), 'rate_limit_exceeded')
  held.release()
})

test.serial('a body that stays incomplete holds its decoder, and nothing once it is gone', async t => {
  const { bodies } = gateway.services.budgets
  const socket = await connectTo(gateway.url)
  const headers = { 'content-type': 'application/json', 'content-encoding': 'br', 'content-length': 1000 }
  socket.write(headOf(chat, account.test, headers))
  socket.write(brotliCompressSync(hello).subarray(0, 10))
  await eventually(() => bodies.bytes > 64 * 1024, 'its decoder counts')
  socket.destroy()
  await eventually(() => bodies.bytes === 0, 'nothing is held')
  t.pass()
})

test('400 for thousands of compressed pieces of a byte', async t => {
  const body = gzipSync(Buffer.from(Array.from({ length: 20_000 }, () => Math.random()).join()))
  const pieces = Array.from(body.subarray(0, 20_000), byte => Buffer.of(byte))
  const socket = await connectTo(gateway.url)
  let answer = ''
  socket.on('data', part => {
    answer += part
  })
  socket.on('error', () => {})
  const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip', 'transfer-encoding': 'chunked' }
  socket.write(headOf(chat, account.test, headers))
  socket.write(Buffer.concat(pieces.map(piece => Buffer.concat([Buffer.from('1\r\n'), piece, Buffer.from('\r\n')]))))
  await eventually(() => answer.includes('\r\n\r\n{'), 'it is answered')
  t.regex(answer, /^HTTP\/1.1 400 .*tiny pieces/s)
  socket.destroy()
})

test('replayed for one Idempotency-Key: the same body under another Content-Encoding', async t => {
  const idempotent = { 'idempotency-key': 'zipped' }
  const first = await post(chat, 'identity', hello, account.test, idempotent)
  const again = await post(chat, 'zstd', zstdCompressSync(hello), account.test, idempotent)
  t.is(again.headers.get('idempotent-replayed'), 'true')
  t.is(await again.text(), await first.text())
  const other = gzipSync(JSON.stringify({ ...validBodies[chat], temperature: 1 }))
  await answersError(t, await post(chat, 'gzip', other, account.test, idempotent), 'idempotency_key_reused')
})

test('200 for compressed forms, 400 for damaged ones, 413 by the limit of the file', async t => {
  const line = { custom_id: 'a', method: 'POST', url: chat, body: validBodies[chat] }
  const lines = Buffer.from(`${JSON.stringify(line)}\n`.repeat(5_000))
  const form = formOf(partOf('purpose', 'batch'), partOf('file', lines, 'in.jsonl', 'application/jsonl'))
  const send = (coding: string, body: Buffer) =>
    post('/v1/files', coding, body, account.test, { 'content-type': formType })
  for (const [coding, compress] of codings) {
    const response = await send(coding, compress(form))
    t.is(response.status, 200, coding)
    t.is(((await response.json()) as { bytes: number }).bytes, lines.length, coding)
  }
  const whole = gzipSync(form)
  await answersError(t, await send('gzip', whole.subarray(0, -1)), 'invalid_request', 'content-encoding')
  await answersError(t, await send('compress', whole), 'unsupported_media_type')
  t.true(gunzipSync(whole).equals(form))
})
