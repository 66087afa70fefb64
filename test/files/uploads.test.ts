import { once } from 'node:events'
import { createConnection } from 'node:net'
import { resolved } from '../support/api/openapi.ts'
import { eventually } from '../support/gateway.ts'
import { flac, movie, mp3, mp3Of, mp4Of, png, wav } from '../support/media/media-files.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const mib = 1024 * 1024
let nowMs = Math.floor(Date.now() / 1000) * 1000
const gateway = useGateway(test, {}, { clock: { now: () => nowMs } })
const account = use(test, () => gateway.account())

type Sent = { bytes: Buffer; field?: string; name?: string; type?: string }

function formOf(files: Sent[], fields: Record<string, string> = {}): FormData {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.append(name, value)
  for (const { bytes, field = 'file', name = 'a.bin', type = '' } of files)
    form.append(field, new Blob([new Uint8Array(bytes)], { type }), name)
  return form
}

async function send(
  body: FormData | string | Buffer,
  options: { key?: string; headers?: Record<string, string> } = {},
) {
  const response = await fetch(`${gateway.url}/v1/uploads`, {
    method: 'POST',
    headers: { authorization: `Bearer ${options.key ?? account.live}`, ...options.headers },
    body,
  })
  // biome-ignore lint/suspicious/noExplicitAny: what the route answers is what is tested
  return { status: response.status, headers: response.headers, json: (await response.json()) as any }
}
const upload = (bytes: Buffer, file: Omit<Sent, 'bytes'> = {}) => send(formOf([{ bytes, ...file }]))
const countFiles = (organisationId: string) => gateway.services.db.file.count({ where: { organisationId } })

test('201 with an address that opens the file without a key, in parts too, for 30 minutes', async t => {
  const file = png(5_000)
  const { status, json, headers } = await upload(file, { name: 'a.png', type: 'image/png' })
  t.is(status, 201)
  t.deepEqual(Object.keys(json), ['id', 'object', 'url', 'content_type', 'bytes', 'expires_at'])
  t.like(json, { object: 'upload', content_type: 'image/png', bytes: 5_000 })
  t.regex(json.id, /^upl_/)
  t.is(Date.parse(json.expires_at), nowMs + 30 * 60_000)
  t.truthy(headers.get('x-request-id'))
  const whole = await fetch(json.url)
  t.is(whole.headers.get('content-type'), 'image/png')
  t.true(Buffer.from(await whole.arrayBuffer()).equals(file))
  const part = await fetch(json.url, { headers: { range: 'bytes=10-19' } })
  t.is(part.status, 206)
  t.true(Buffer.from(await part.arrayBuffer()).equals(file.subarray(10, 20)))
})

test.serial('404 once the 30 minutes are over, while the bytes are kept for jobs that wait', async t => {
  const { json } = await upload(png())
  nowMs += 30 * 60_000 + 1_000
  t.is((await fetch(json.url)).status, 404)
  const row = await gateway.services.db.file.findUniqueOrThrow({ where: { id: json.id } })
  t.true(row.expiresAt.getTime() > nowMs + 23 * 3_600_000)
  nowMs -= 30 * 60_000 + 1_000
})

const kinds: [type: string, file: () => Promise<Buffer> | Buffer, stated: string][] = [
  ['image/png', () => png(), 'image/png'],
  ['image/png', () => png(), 'image/jpeg'],
  ['image/png', () => png(), 'application/octet-stream'],
  ['audio/mpeg', () => mp3(20), 'audio/mp3'],
  ['audio/wav', () => wav(1), 'audio/x-wav'],
  ['audio/flac', () => flac(2), ''],
  ['audio/ogg', () => movie('ogg', { audioS: 1 }), 'audio/ogg'],
  ['video/mp4', () => movie('mp4', { videoS: 1 }), 'video/mp4'],
  ['video/quicktime', () => movie('mov', { videoS: 1 }), 'video/quicktime'],
  ['video/webm', () => movie('webm', { audioS: 1 }), 'audio/webm'],
  // Types that say nothing about the bytes.
  ['audio/wav', () => wav(1), '*/*'],
  ['audio/wav', () => wav(1), 'multipart/form-data'],
  ['audio/wav', () => wav(1), 'application/unknown'],
  ['audio/wav', () => wav(1), 'application/force-download'],
  ['audio/wav', () => wav(1), 'Binary/Octet-Stream'],
  ['image/png', () => png(), 'application/x-download'],
  ['video/mp4', () => movie('mp4', { videoS: 1 }), 'application/mp4'],
  ['image/tiff', () => tiff('II*\0', 100_000), 'image/tiff'],
  ['image/tiff', () => tiff('MM\0*', 100_000), 'image/x-tiff'],
  ['image/tiff', () => tiff('II+\0', 100_000), 'image/tif'],
  ['image/heic', () => heif('heic'), 'image/heic'],
  ['image/heic', () => heif('hevc'), 'image/heic-sequence'],
  ['image/heif', () => heif('mif1'), 'image/heif'],
  ['image/heif', () => heif('msf1'), 'image/heif-sequence'],
  ['audio/flac', async () => Buffer.concat([id3(100), await flac(2)]), 'audio/x-flac'],
  ['audio/flac', async () => Buffer.concat([id3(135_000), await flac(2)]), 'audio/flac'],
  ['audio/mpeg', () => Buffer.concat([id3(135_000), mp3(20)]), 'audio/mpeg'],
  ['audio/mpeg', () => id3(3_000_000), 'audio/mpeg3'],
]

/** A TIFF as scanners write it: its directory is at its end. */
function tiff(magic: string, bytes: number): Buffer {
  const file = Buffer.alloc(bytes)
  file.write(magic, 'latin1')
  if (magic.startsWith('II')) file.writeUInt32LE(bytes - 6, 4)
  else file.writeUInt32BE(bytes - 6, 4)
  return file
}

/** The beginning of a still, or of a burst of them, as telephones write it. */
function heif(brand: string): Buffer {
  const file = Buffer.alloc(24)
  file.writeUInt32BE(file.length)
  file.write(`ftyp${brand}\0\0\0\0mif1${brand}`, 4, 'latin1')
  return Buffer.concat([file, Buffer.alloc(1_000)])
}

/** An ID3 tag of so many bytes, as those with a cover have. */
function id3(bytes: number): Buffer {
  const tag = Buffer.alloc(10 + bytes)
  tag.write('ID3\u0003', 'latin1')
  for (const [i, shift] of [21, 14, 7, 0].entries()) tag[6 + i] = (bytes >> shift) & 127
  return tag
}

for (const [type, file, stated] of kinds) {
  test(`201 for ${type} sent as ${stated || 'nothing'}`, async t => {
    const { status, json } = await upload(await file(), { type: stated })
    t.is(status, 201)
    t.is(json.content_type, type)
  })
}

const refused: [what: string, bytes: Buffer, stated: string][] = [
  ['text', Buffer.from('hello there, this is text'), 'text/plain'],
  ['text sent as an image', Buffer.from('hello there, this is text'), 'image/png'],
  ['a page sent as an image', Buffer.from('<!doctype html><script>alert(1)</script>'), 'image/png'],
  ['an SVG', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>'), 'image/svg+xml'],
  ['a PDF', Buffer.from('%PDF-1.7\n'.padEnd(2000)), 'application/pdf'],
  ['a program', Buffer.from('\x7fELF\x02\x01\x01'.padEnd(500, '\0'), 'latin1'), 'image/png'],
  ['an image sent as a video', png(), 'video/mp4'],
  ['an image sent as a page', png(), 'text/html'],
  ['sound sent as an image', mp3(10), 'image/png'],
  ['sound sent as JSON', mp3(10), 'application/json'],
  ['sound sent as a document', mp3(10), 'application/vnd.openxmlformats-officedocument.wordprocessingml.document'],
]
for (const [what, bytes, stated] of refused) {
  test(`415 for ${what}`, async t => {
    const { status, json } = await upload(bytes, { type: stated })
    t.is(status, 415)
    t.like(json.error, { code: 'unsupported_media_type', param: 'file' })
  })
}

const limits: [kind: string, bytes: number, file: (bytes: number) => Buffer][] = [
  ['image', 10 * mib, png],
  ['audio', 20 * mib, mp3Of],
  ['video', 50 * mib, mp4Of],
]
for (const [kind, max, file] of limits) {
  test.serial(`413 at the first byte over the limit of ${kind}, 201 at the last one within`, async t => {
    const { organisationId, live: key } = await gateway.account()
    const over = await send(formOf([{ bytes: file(max + 1) }]), { key })
    t.is(over.status, 413)
    t.like(over.json.error, { code: 'file_too_large', param: 'file' })
    t.is(await countFiles(organisationId), 0)
    const within = await send(formOf([{ bytes: file(max) }]), { key })
    t.is(within.status, 201)
    t.is(within.json.bytes, max)
    t.is(await countFiles(organisationId), 1)
  })
}

const part = (name: string, headers: string, body: string) =>
  `--x\r\nContent-Disposition: form-data; name="${name}"${headers}\r\n\r\n${body}\r\n`
const asForm = { 'content-type': 'multipart/form-data; boundary=x' }
const aFile = part('file', '; filename="a.png"', png().toString('latin1'))

test('400 for a broken form, naming what is wrong', async t => {
  const cases: [what: string, body: FormData | string | Buffer<ArrayBuffer>, code: string, param: string | null][] = [
    ['no bytes', formOf([{ bytes: Buffer.alloc(0) }]), 'invalid_request', 'file'],
    ['no file', formOf([], {}), 'missing_field', 'file'],
    ['another field', formOf([{ bytes: png(), field: 'picture' }]), 'unknown_field', 'picture'],
    ['two files', formOf([{ bytes: png() }, { bytes: png() }]), 'invalid_request', 'file'],
    ['a text field', formOf([{ bytes: png() }], { purpose: 'vision' }), 'unknown_field', 'purpose'],
    ['a file as text', formOf([], { file: 'text' }), 'missing_field', 'file'],
    [
      'many fields',
      formOf([], Object.fromEntries(Array.from({ length: 70 }, (_, i) => [`f${i}`, '']))),
      'invalid_request',
      null,
    ],
    ['a long field', formOf([], { note: 'x'.repeat(300_000) }), 'invalid_request', 'note'],
  ]
  for (const [what, body, code, param] of cases) {
    const { status, json } = await send(body)
    t.is(status, 400, what)
    t.like(json.error, { code, param }, what)
  }
  const raw: [what: string, body: string, headers: Record<string, string>][] = [
    ['cut off', Buffer.from(aFile, 'latin1').toString('latin1'), asForm],
    ['nothing', '', asForm],
    ['no boundary', aFile, { 'content-type': 'multipart/form-data' }],
    ['another boundary', aFile, { 'content-type': 'multipart/form-data; boundary=y' }],
    ['a field twice', `${part('a', '', '1')}${part('a', '', '2')}--x--\r\n`, asForm],
  ]
  for (const [what, body, headers] of raw) {
    const { status, json } = await send(Buffer.from(body, 'latin1'), { headers })
    t.is(status, 400, `${what}: ${JSON.stringify(json)}`)
  }
})

test('415 for a body that is no form', async t => {
  for (const type of ['application/json', 'image/png', 'application/x-www-form-urlencoded']) {
    const { status, json } = await send('{}', { headers: { 'content-type': type } })
    t.is(status, 415, type)
    t.is(json.error.code, 'unsupported_media_type')
  }
})

test('401, 403 and 429 before a file is taken in', async t => {
  const { organisationId } = account
  const before = await countFiles(organisationId)
  t.is((await send(formOf([{ bytes: png() }]), { key: `svc_sk_live_${'x'.repeat(32)}` })).status, 401)
  const narrow = await gateway.key(organisationId, 'live', { scopes: 'chat' })
  t.is((await send(formOf([{ bytes: png() }]), { key: narrow })).status, 403)
  const slow = await gateway.key(organisationId, 'live', { rpm_limit: 1 })
  const first = await gateway.account()
  t.is((await send(formOf([{ bytes: png() }]), { key: slow })).status, 201)
  const limited = await send(formOf([{ bytes: png() }]), { key: slow })
  t.is(limited.status, 429)
  t.truthy(limited.headers.get('retry-after'))
  t.is(await countFiles(first.organisationId), 0)
  t.true((await countFiles(organisationId)) >= before + 1)
})

test('201 for a test key', async t => {
  t.is((await send(formOf([{ bytes: png() }]), { key: account.test })).status, 201)
})

test('201 the same again under one Idempotency-Key, whatever the boundary; 409 for another file', async t => {
  const { organisationId, live: key } = await gateway.account()
  const headers = { 'idempotency-key': 'upload-1' }
  const first = await send(formOf([{ bytes: png() }]), { key, headers })
  const again = await send(formOf([{ bytes: png() }]), { key, headers })
  t.is(first.status, 201)
  t.deepEqual(again.json, first.json)
  t.is(again.headers.get('idempotent-replayed'), 'true')
  const other = await send(formOf([{ bytes: png(200) }]), { key, headers })
  t.is(other.status, 409)
  t.is(other.json.error.code, 'idempotency_key_reused')
  t.is(await countFiles(organisationId), 1)
})

test('removed: a client that leaves half-way leaves nothing behind', async t => {
  const { organisationId, live } = await gateway.account()
  const { hostname, port } = new URL(gateway.url)
  const socket = createConnection(Number(port), hostname)
  await once(socket, 'connect')
  socket.on('error', () => {})
  socket.write(
    `POST /v1/uploads HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${live}\r\ncontent-type: ${asForm['content-type']}\r\ncontent-length: 5000000\r\n\r\n`,
  )
  socket.write('--x\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n')
  socket.write(png(1_000_000))
  await eventually(async () => (await countFiles(organisationId)) === 1, 'the file is being stored')
  socket.destroy()
  await eventually(async () => (await countFiles(organisationId)) === 0, 'nothing is left')
  t.pass()
})

test('shown in the OpenAPI document as a form with a file', async t => {
  // biome-ignore lint/suspicious/noExplicitAny: a document of many shapes
  const document = (await (await gateway.fetch('/openapi.json')).json()) as any
  const { content } = resolved(document, document.paths['/v1/uploads'].post.requestBody)
  t.like(content['multipart/form-data'].schema, { required: ['file'], properties: { file: { format: 'binary' } } })
  t.truthy(document.paths['/files/{key}'].get)
})
