import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { NotFoundError, OpenAI, toFile } from 'openai'
import { newId } from '../../shared/base/ids.ts'
import { answersError } from '../support/api/edge.ts'
import { resolved } from '../support/api/openapi.ts'
import { eventually } from '../support/gateway.ts'
import { png } from '../support/media/media-files.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const _mib = 1024 * 1024
const hourMs = 3_600_000
const nowMs = Math.floor(Date.now() / 1000) * 1000
const gateway = useGateway(test, {}, { clock: { now: () => nowMs } })
const account = use(test, () => gateway.account())

const line = '{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{}}\n'
// biome-ignore lint/suspicious/noExplicitAny: what the routes answer is what is tested
type Json = any

const sdk = (apiKey: string) => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey, maxRetries: 0 })
const upload = (key: string, name = 'in.jsonl') =>
  sdk(key).files.create({ file: new File([line], name), purpose: 'batch' })

/** The forms of clients that do not follow the SDK. */
function formOf(text: string | Buffer, fields: Record<string, string> = { purpose: 'batch' }): FormData {
  const form = new FormData()
  form.append('file', new Blob([text as string]), 'in.jsonl')
  for (const [name, value] of Object.entries(fields)) form.append(name, value)
  return form
}
function send(body: FormData, key: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${gateway.url}/v1/files`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, ...headers },
    body,
  })
}

/** What an organisation has left in the database and in storage. */
async function leftOf(organisationId: string): Promise<number> {
  return gateway.services.db.file.count({ where: { organisationId } })
}
async function hasBytes(storageKey: string): Promise<boolean> {
  const blob = await gateway.services.blobs.read(storageKey)
  blob?.stream.destroy()
  return blob !== null
}
const rowOf = (id: string) => gateway.services.db.file.findUnique({ where: { id } })

for (const environment of ['live', 'test'] as const) {
  test(`200 for the official SDK, unchanged, with a ${environment} key`, async t => {
    const own = await gateway.account()
    const client = sdk(own[environment])
    const folder = await mkdtemp(join(tmpdir(), 'headgate-files-'))
    const path = join(folder, 'stream é.jsonl')
    await writeFile(path, line.repeat(3))
    const streamed = await client.files.create({ file: createReadStream(path), purpose: 'batch' })
    await rm(folder, { recursive: true })
    t.deepEqual(
      { ...streamed },
      {
        id: streamed.id,
        object: 'file',
        bytes: line.length * 3,
        filename: 'stream é.jsonl',
        purpose: 'batch',
        created_at: nowMs / 1000,
        expires_at: nowMs / 1000 + 30 * 86_400,
        status: 'processed',
        status_details: null as unknown as string,
      },
    )
    t.regex(streamed.id, /^file-[0-9a-z]{24}$/)
    const made = await client.files.create({
      file: await toFile(Buffer.from(line), 'made.jsonl'),
      purpose: 'batch',
      expires_after: { anchor: 'created_at', seconds: 3_600 },
    })
    t.is(made.expires_at, nowMs / 1000 + 3_600)
    t.deepEqual(await client.files.retrieve(made.id), made)
    t.is(await (await client.files.content(streamed.id)).text(), line.repeat(3))
    t.deepEqual((await client.files.list()).data, [made, streamed])
    t.deepEqual({ ...(await client.files.delete(made.id)) }, { id: made.id, object: 'file', deleted: true })
    await t.throwsAsync(client.files.retrieve(made.id), { instanceOf: NotFoundError })
    t.deepEqual((await client.files.list()).data, [streamed])
    t.is(await leftOf(own.organisationId), 1)
  })
}

test('200 with pages, in both orders, also while their files are deleted', async t => {
  const { live } = await gateway.account()
  const client = sdk(live)
  const ids: string[] = []
  for (let i = 0; i < 7; i++) ids.push((await upload(live, `${i}.jsonl`)).id)
  const listed = async (order: 'asc' | 'desc', each: (id: string) => unknown = () => {}) => {
    const seen: string[] = []
    for await (const { id } of client.files.list({ limit: 3, order })) {
      seen.push(id)
      await each(id)
    }
    return seen
  }
  t.deepEqual(await listed('asc'), ids)
  t.deepEqual(await listed('desc'), ids.toReversed())
  const page = (await (await gateway.fetch('/v1/files?limit=3', { key: live })).json()) as Json
  t.like(page, { object: 'list', has_more: true, first_id: ids[6], last_id: ids[4] })
  const last = (await (await gateway.fetch(`/v1/files?after=${ids[1]}`, { key: live })).json()) as Json
  t.like(last, { has_more: false, first_id: ids[0], last_id: ids[0] })
  t.deepEqual(await listed('desc', id => client.files.delete(id)), ids.toReversed())
  const none = (await (await gateway.fetch('/v1/files', { key: live })).json()) as Json
  t.deepEqual(none, { object: 'list', data: [], has_more: false, first_id: null, last_id: null })
})

test('200 with the inputs and outputs of batches only', async t => {
  const { organisationId, live, test: sandbox } = await gateway.account()
  const { files, db } = gateway.services
  const input = await upload(live)
  const store = async (purpose: 'upload' | 'reference' | 'result' | 'batch_output' | 'batch_part', text = line) => {
    const filename = 'out.jsonl'
    const [environment, contentType, expiresAtMs] = ['live', 'application/jsonl', nowMs + hourMs] as const
    const file = { organisationId, environment, purpose, filename, contentType, expiresAtMs, id: newId('file') }
    return files.store(Readable.from([Buffer.from(text)]), file)
  }
  const output = await store('batch_output')
  t.regex(output.storageKey, /^batches\/.*\.jsonl$/)
  const hidden = await Promise.all((['upload', 'reference', 'result', 'batch_part'] as const).map(one => store(one)))
  const unfinished = await store('batch_output')
  await db.file.update({ where: { id: unfinished.fileId }, data: { bytes: 0n } })
  const idsOf = async (query: string, key = live) => {
    const { data } = (await (await gateway.fetch(`/v1/files${query}`, { key })).json()) as Json
    return data.map(({ id }: Json) => id)
  }
  t.deepEqual(await idsOf(''), [output.fileId, input.id])
  t.deepEqual(await idsOf('?purpose=batch'), [input.id])
  t.deepEqual(await idsOf('?purpose=batch_output'), [output.fileId])
  t.deepEqual(await idsOf('?purpose=upload'), [])
  t.deepEqual(await idsOf('', sandbox), [])
  for (const { fileId } of [...hidden, unfinished]) {
    for (const path of [`/v1/files/${fileId}`, `/v1/files/${fileId}/content`])
      await answersError(t, await gateway.fetch(path, { key: live }), 'not_found', 'id')
    await answersError(
      t,
      await gateway.fetch(`/v1/files/${fileId}`, { key: live, method: 'DELETE' }),
      'not_found',
      'id',
    )
    t.truthy(await rowOf(fileId))
  }
})

test('404 for the files of other organisations, and of the other kind of key', async t => {
  const { live, test: sandbox } = await gateway.account()
  const { id } = await upload(live)
  const { id: tested } = await upload(sandbox)
  const strangers: [string, string][] = [
    [id, account.live],
    [id, sandbox],
    [tested, live],
  ]
  for (const [file, key] of strangers) {
    await answersError(t, await gateway.fetch(`/v1/files/${file}`, { key }), 'not_found', 'id')
    await answersError(t, await gateway.fetch(`/v1/files/${file}/content`, { key }), 'not_found', 'id')
    await answersError(t, await gateway.fetch(`/v1/files/${file}`, { key, method: 'DELETE' }), 'not_found', 'id')
  }
  t.is((await gateway.fetch(`/v1/files/${id}`, { key: live })).status, 200)
  t.is((await gateway.fetch(`/v1/files/${tested}`, { key: sandbox })).status, 200)
})

test('200 and 206 with the bytes, their type and their name', async t => {
  const { id } = await upload(account.live, 'naïve.jsonl')
  const path = `/v1/files/${id}/content`
  const whole = await gateway.fetch(path, { key: account.live })
  t.is(whole.status, 200)
  t.is(whole.headers.get('content-type'), 'application/jsonl')
  t.is(whole.headers.get('content-length'), String(line.length))
  t.regex(whole.headers.get('content-disposition') ?? '', /filename\*=UTF-8''na%C3%AFve\.jsonl/)
  t.is(await whole.text(), line)
  const part = await gateway.fetch(path, { key: account.live, headers: { range: 'bytes=1-9' } })
  t.is(part.status, 206)
  t.is(part.headers.get('content-range'), `bytes 1-9/${line.length}`)
  t.is(await part.text(), line.slice(1, 10))
  t.is((await gateway.fetch(path, { key: account.live, headers: { range: 'bytes=9999-' } })).status, 416)
  await gateway.services.blobs.remove([(await rowOf(id))!.storageKey])
  await answersError(t, await gateway.fetch(path, { key: account.live }), 'not_found')
})

const life = (seconds: string, anchor = 'created_at') => ({
  purpose: 'batch',
  'expires_after[anchor]': anchor,
  'expires_after[seconds]': seconds,
})
const { 'expires_after[anchor]': _anchor, ...withoutAnchor } = life('3600')
const { 'expires_after[seconds]': _seconds, ...withoutSeconds } = life('3600')
const refused: [
  what: string,
  form: () => FormData,
  code: 'invalid_request' | 'missing_field' | 'unknown_field',
  param: string,
][] = [
  ['no purpose', () => formOf(line, {}), 'missing_field', 'purpose'],
  ['another purpose', () => formOf(line, { purpose: 'fine-tune' }), 'invalid_request', 'purpose'],
  // As LiteLLM sends a document of Google's ADK to the prefix `openai/`.
  ['another purpose', () => formOf(line, { purpose: 'assistants' }), 'invalid_request', 'purpose'],
  ['an output', () => formOf(line, { purpose: 'batch_output' }), 'invalid_request', 'purpose'],
  ['another field', () => formOf(line, { purpose: 'batch', colour: 'red' }), 'unknown_field', 'colour'],
  ['too short a life', () => formOf(line, life('3599')), 'invalid_request', 'expires_after[seconds]'],
  ['too long a life', () => formOf(line, life('2592001')), 'invalid_request', 'expires_after[seconds]'],
  ['a life that is no number', () => formOf(line, life('an hour')), 'invalid_request', 'expires_after[seconds]'],
  ['a broken life', () => formOf(line, life('3600.5')), 'invalid_request', 'expires_after[seconds]'],
  ['another anchor', () => formOf(line, life('3600', 'now')), 'invalid_request', 'expires_after[anchor]'],
  ['no anchor', () => formOf(line, withoutAnchor), 'missing_field', 'expires_after[anchor]'],
  ['an anchor alone', () => formOf(line, withoutSeconds), 'missing_field', 'expires_after[seconds]'],
  ['an empty file', () => formOf(''), 'invalid_request', 'file'],
  ['an image', () => formOf(png()), 'invalid_request', 'file'],
  ['a document', () => formOf('%PDF-1.7\n'.padEnd(99)), 'invalid_request', 'file'],
  ['lines in place of a document', () => formOf(line, { purpose: 'ocr' }), 'invalid_request', 'file'],
  [
    'sound in place of a document',
    () => formOf(Buffer.from('fLaC'.padEnd(99)), { purpose: 'ocr' }),
    'invalid_request',
    'file',
  ],
  ['a compressed file', () => formOf(gzipSync(line)), 'invalid_request', 'file'],
  ['an archive', () => formOf(Buffer.from('504b0304140000000800', 'hex')), 'invalid_request', 'file'],
]
test('400 for a form with something wrong, which leaves nothing behind', async t => {
  const { organisationId, live } = await gateway.account()
  for (const [what, form, code, param] of refused) {
    const { message } = await answersError(t, await send(form(), live), code, param, what)
    if (what.includes('compressed')) t.regex(message, /application\/gzip.*JSON Lines/)
    if (what.includes('purpose')) t.regex(message, /`purpose`.*(?:required|`batch`.*in the request.*`file_data`)/)
  }
  const two = formOf(line)
  two.append('file', new Blob([line]), 'b.jsonl')
  await answersError(t, await send(two, live), 'invalid_request', 'file', 'two files')
  const text = new FormData()
  for (const name of ['file', 'purpose']) text.append(name, 'batch')
  await answersError(t, await send(text, live), 'missing_field', 'file', 'a file as text')
  const json = await gateway.fetch('/v1/files', { key: live, body: { purpose: 'batch' } })
  await answersError(t, json, 'unsupported_media_type')
  t.is(await leftOf(organisationId), 0)
})

test('200 for whatever only the validation of a batch can judge', async t => {
  for (const text of ['no json', '\n', '\ufeff{}', '[1]', '{"a":"\xff"}', 'custom_id,method\n'])
    t.is((await send(formOf(Buffer.from(text, 'latin1')), account.live)).status, 200, text)
  t.is((await send(formOf(Buffer.from(`\ufeff${line}`)), account.live)).status, 200)
})

test('401, 403 and 429 before a file is taken in', async t => {
  const { organisationId, live } = await gateway.account()
  await answersError(t, await send(formOf(line), `svc_sk_live_${'x'.repeat(32)}`), 'invalid_api_key')
  const narrow = await gateway.key(organisationId, 'live', { scopes: 'chat' })
  await answersError(t, await send(formOf(line), narrow), 'insufficient_scope')
  await answersError(t, await gateway.fetch('/v1/files', { key: narrow }), 'insufficient_scope')
  const slow = await gateway.key(organisationId, 'live', { rpm_limit: 2 })
  t.is((await send(formOf(line), slow)).headers.get('x-ratelimit-remaining-requests'), '1')
  t.is((await gateway.fetch('/v1/files', { key: slow })).status, 200)
  await answersError(t, await send(formOf(line), slow), 'rate_limit_exceeded')
  await answersError(t, await gateway.fetch('/v1/files/file-x', { key: slow }), 'rate_limit_exceeded')
  t.is(((await (await gateway.fetch('/v1/files', { key: live })).json()) as Json).data.length, 1)
})

test('200 the same again under one Idempotency-Key; 409 for another file or purpose', async t => {
  const { organisationId, live } = await gateway.account()
  const headers = { 'idempotency-key': 'file-1' }
  const first = await send(formOf(line), live, headers)
  const again = await send(formOf(line), live, headers)
  t.is(first.status, 200)
  t.deepEqual(await again.json(), await first.json())
  t.is(again.headers.get('idempotent-replayed'), 'true')
  await answersError(t, await send(formOf(`${line}${line}`), live, headers), 'idempotency_key_reused')
  await answersError(t, await send(formOf(line, life('3600')), live, headers), 'idempotency_key_reused')
  t.is(await leftOf(organisationId), 1)
})

test('409 for a repeated request whose file was deleted', async t => {
  const { organisationId, live } = await gateway.account()
  const headers = { 'idempotency-key': 'file-2' }
  const { id } = (await (await send(formOf(line), live, headers)).json()) as Json
  t.is((await gateway.fetch(`/v1/files/${id}`, { key: live, method: 'DELETE' })).status, 200)
  await answersError(t, await send(formOf(line), live, headers), 'idempotency_key_reused')
  t.is(await leftOf(organisationId), 0)
})

test('removed: a client that leaves half-way leaves nothing behind, and shows nothing meanwhile', async t => {
  const { organisationId, live } = await gateway.account()
  const { hostname, port } = new URL(gateway.url)
  const socket = createConnection(Number(port), hostname)
  await once(socket, 'connect')
  socket.on('error', () => {})
  const headers = `host: x\r\nauthorization: Bearer ${live}\r\ncontent-type: multipart/form-data; boundary=x`
  socket.write(`POST /v1/files HTTP/1.1\r\n${headers}\r\ncontent-length: 5000000\r\n\r\n`)
  socket.write('--x\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n')
  socket.write(`${line.repeat(1_000)}\r\n--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nba`)
  const stored = () => gateway.services.db.file.findFirst({ where: { organisationId, bytes: { gt: 0 } } })
  await eventually(async () => (await stored()) !== null, 'the file is stored, the form is not whole')
  const row = (await stored())!
  t.deepEqual(((await (await gateway.fetch('/v1/files', { key: live })).json()) as Json).data, [])
  await answersError(t, await gateway.fetch(`/v1/files/${row.id}`, { key: live }), 'not_found', 'id')
  socket.destroy()
  await eventually(async () => (await leftOf(organisationId)) === 0, 'nothing is left')
  t.false(await hasBytes(row.storageKey))
})

test('shown in the OpenAPI document as a form with fields, and no other body', async t => {
  const document = (await (await gateway.fetch('/openapi.json')).json()) as Json
  const { content } = resolved(document, document.paths['/v1/files'].post.requestBody)
  t.deepEqual(Object.keys(content), ['multipart/form-data'])
  const { properties, required } = content['multipart/form-data'].schema
  t.deepEqual(Object.keys(properties).sort(), ['expires_after[anchor]', 'expires_after[seconds]', 'file', 'purpose'])
  t.deepEqual(required.toSorted(), ['file', 'purpose'])
})
