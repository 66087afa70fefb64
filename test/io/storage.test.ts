import { once } from 'node:events'
import { mkdtemp, readdir, readlink, rm } from 'node:fs/promises'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { noProxies } from '../../shared/base/proxies.ts'
import { isOutage, StorageError } from '../../shared/io/outage.ts'
import type { Blobs } from '../../shared/io/storage/blobs.ts'
import { S3Blobs } from '../../shared/io/storage/blobs-s3.ts'
import { openBlobs } from '../../shared/io/storage/open-blobs.ts'
import { eventually } from '../support/gateway.ts'
import { type S3Server, startS3 } from '../support/io/s3.ts'
import { type ExecutionContext, test } from '../support/test.ts'

/** One suite for every kind of storage. */

let nowMs = Date.now()
const clock = { now: () => nowMs }
const secret = async () => 'a secret of at least thirty-two characters'
const publicUrl = 'http://gateway.test/base'
const contentType = 'video/mp4'
const megabyte = 1_000_000
const silenceMs = 400

type Storage = { blobs: Blobs; stored(): Promise<string[]>; serves: boolean }
const storages: Record<string, () => Promise<Storage>> = { file: openFolder, s3: openBucket }
const closing: (() => Promise<unknown> | undefined)[] = []
test.after.always(async () => {
  for (const close of closing.reverse()) await close()
})

async function openFolder(): Promise<Storage> {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-blobs-'))
  closing.push(() => rm(folder, { recursive: true, force: true }))
  const blobs = await openBlobs({ storageUrl: `file:${folder}`, publicUrl }, secret, clock)
  const stored = async () => {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true })
    return entries
      .filter(entry => entry.isFile())
      .map(entry => join(entry.parentPath, entry.name).slice(folder.length + 1))
  }
  return { blobs, stored, serves: false }
}

let server: Promise<S3Server> | null = null
let prefixes = 0

async function openBucket(): Promise<Storage> {
  server ??= startS3('headgate-test')
  const s3 = await server
  if (prefixes === 0) closing.push(() => s3.close())
  const prefix = `tests/${++prefixes}`
  const blobs = await openBlobs({ storageUrl: s3.storageUrl(prefix), publicUrl }, secret, clock)
  closing.push(async () => blobs.close())
  const stored = async () =>
    (await s3.keys()).filter(key => key.startsWith(`${prefix}/`)).map(key => key.slice(prefix.length + 1))
  return { blobs, stored, serves: true }
}

function conformance(title: string, body: (t: ExecutionContext, storage: Storage) => Promise<void>) {
  for (const [name, open] of Object.entries(storages)) test(`${title} (${name})`, async t => body(t, await open()))
}

async function* parts(...texts: string[]) {
  for (const text of texts) yield Buffer.from(text)
}
async function text(blob: { stream: Readable } | null): Promise<string | undefined> {
  return blob ? (await buffer(blob.stream)).toString() : undefined
}

conformance('stored: what is written is read back, with its length', async (t, { blobs, stored }) => {
  t.is(await blobs.write('uploads/org_1/a.mp4', parts('0123', '4567', '89'), contentType), 10)
  const blob = await blobs.read('uploads/org_1/a.mp4')
  t.is(blob?.bytes, 10)
  t.is(await text(blob), '0123456789')
  t.deepEqual(await stored(), ['uploads/org_1/a.mp4'])
})

conformance('stored: writing again replaces', async (t, { blobs }) => {
  await blobs.write('a.bin', parts('first'), contentType)
  await blobs.write('a.bin', parts('second one'), contentType)
  t.is(await text(await blobs.read('a.bin')), 'second one')
})

conformance('stored: a large blob, in parts of any size', async (t, { blobs }) => {
  const whole = Buffer.alloc(6_000_001, 'headgate ')
  const pieces = async function* () {
    for (let at = 0; at < whole.length; at += 99_991) yield whole.subarray(at, at + 99_991)
  }
  t.is(await blobs.write('large.bin', pieces(), contentType), whole.length)
  const blob = await blobs.read('large.bin')
  t.true((await buffer(blob!.stream)).equals(whole))
})

conformance('stored: a body that uses the memory of a part again for the next one', async (t, { blobs }) => {
  const part = Buffer.alloc(70_000)
  const again = async function* () {
    for (let i = 0; i < 20; i++) yield part.fill(i)
  }
  t.is(await blobs.write('again.bin', again(), contentType), 20 * part.length)
  const stored = await buffer((await blobs.read('again.bin'))!.stream)
  for (let i = 0; i < 20; i++) t.true(stored.subarray(i * part.length, (i + 1) * part.length).equals(part.fill(i)))
})

conformance('a part of a blob, both ends included', async (t, { blobs }) => {
  await blobs.write('a.bin', parts('0123456789'), contentType)
  const part = await blobs.read('a.bin', { start: 2, end: 5 })
  t.is(part?.bytes, 10)
  t.is(await text(part), '2345')
  t.is(await text(await blobs.read('a.bin', { start: 9, end: 9 })), '9')
})

conformance('null for a blob that is not there', async (t, { blobs }) => {
  t.is(await blobs.read('nothing/here.bin'), null)
  t.is(await blobs.read('nothing/here.bin', { start: 0, end: 1 }), null)
})

conformance('not stored: a body that fails half-way leaves nothing behind', async (t, { blobs, stored }) => {
  const failing = async function* () {
    yield Buffer.alloc(300_000)
    throw new Error('the client left')
  }
  await t.throwsAsync(blobs.write('a.bin', failing(), contentType), { message: 'the client left' })
  t.deepEqual(await stored(), [])
  await blobs.write('b.bin', parts('before'), contentType)
  await t.throwsAsync(blobs.write('b.bin', failing(), contentType))
  t.is(await text(await blobs.read('b.bin')), 'before')
})

conformance('removed: those named, and those that are not there are fine', async (t, { blobs, stored }) => {
  for (const key of ['a.bin', 'b/c.bin', 'b/d.bin']) await blobs.write(key, parts(key), contentType)
  await blobs.remove(['a.bin', 'b/c.bin', 'never.bin'])
  t.deepEqual(await stored(), ['b/d.bin'])
  await blobs.remove([])
})

conformance('key of its own address, and of no other', async (t, { blobs }) => {
  await blobs.write('uploads/org_1/a.mp4', parts('bytes'), contentType)
  const url = await blobs.signedUrl(
    { key: 'uploads/org_1/a.mp4', contentType, filename: 'My "film" é.mp4' },
    nowMs + 60_000,
  )
  t.is(await blobs.keyOf(url), 'uploads/org_1/a.mp4')
  t.is(await blobs.keyOf('https://elsewhere.test/uploads/org_1/a.mp4'), null)
  t.is(await blobs.keyOf('not a url'), null)
})

conformance('url_not_allowed for an address that was changed or is unsigned', async (t, { blobs }) => {
  for (const key of ['uploads/org_1/a.mp4', 'uploads/org_2/a.mp4']) await blobs.write(key, parts('bytes'), contentType)
  const url = await blobs.signedUrl({ key: 'uploads/org_1/a.mp4', contentType }, nowMs + 60_000)
  const changed = [
    url.replace('org_1', 'org_2'),
    url.replace(/ignature=(.)/, (_, first) => `ignature=${first === '0' ? '1' : '0'}`),
    url.slice(0, url.indexOf('?')),
    url.replace('a.mp4', '%E0%A4%A.mp4'),
    url.replace('a.mp4', 'a.mp4%00'),
  ]
  for (const address of changed)
    await t.throwsAsync(blobs.keyOf(address), { message: /expired or was changed/ }, address)
})

conformance('url_not_allowed for an address that has expired', async (t, { blobs }) => {
  await blobs.write('a.bin', parts('bytes'), contentType)
  const realMs = nowMs
  nowMs = realMs - 3_600_000
  const url = await blobs.signedUrl({ key: 'a.bin', contentType }, nowMs + 60_000)
  nowMs = realMs
  await t.throwsAsync(blobs.keyOf(url), { code: 'url_not_allowed' })
})

conformance('reachable: the check passes', async (t, { blobs }) => {
  await t.notThrowsAsync(blobs.check())
})

test('200 with its type and name from an address that S3 itself serves, in parts too (s3)', async t => {
  const { blobs } = await openBucket()
  await blobs.write('a.mp4', parts('0123456789'), contentType)
  const url = await blobs.signedUrl({ key: 'a.mp4', contentType, filename: 'film.mp4' }, nowMs + 60_000)
  const whole = await fetch(url)
  t.is(whole.status, 200)
  t.is(whole.headers.get('content-type'), contentType)
  t.regex(whole.headers.get('content-disposition')!, /film\.mp4/)
  t.is(await whole.text(), '0123456789')
  const part = await fetch(url, { headers: { range: 'bytes=3-4' } })
  t.is(part.status, 206)
  t.is(await part.text(), '34')
})

test('no key of an address whose path leads out of the folder (s3)', async t => {
  const [own, other] = [await openBucket(), await openBucket()]
  for (const { blobs } of [own, other]) await blobs.write('a.mp4', parts('bytes'), contentType)
  const [ownUrl, otherUrl] = await Promise.all(
    [own, other].map(({ blobs }) => blobs.signedUrl({ key: 'a.mp4', contentType }, nowMs + 60_000)),
  )
  const folderOf = (url: string) => url.slice(0, url.indexOf('a.mp4'))
  const name = folderOf(otherUrl!).split('/').at(-2)
  for (const up of ['..', '%2e%2e', '.%2E']) {
    const address = otherUrl!.replace(folderOf(otherUrl!), `${folderOf(ownUrl!)}${up}/${name}/`)
    t.is((await fetch(address)).status, 200)
    t.is(await own.blobs.keyOf(address), null, up)
  }
})

test('not reachable: the check and writing fail (s3)', async t => {
  const storageUrl = 's3://key:secret@bucket?endpoint=http%3A%2F%2F127.0.0.1%3A9&path_style=true'
  const blobs = await openBlobs({ storageUrl, publicUrl }, secret, clock)
  await t.throwsAsync(blobs.check())
  await t.throwsAsync(blobs.write('a', parts('a'), contentType))
  blobs.close()
})

test.serial('StorageError without credentials, until there are some (s3)', async t => {
  const files = ['AWS_CONFIG_FILE', 'AWS_SHARED_CREDENTIALS_FILE']
  const names = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_EC2_METADATA_DISABLED', ...files]
  const before = names.map(name => process.env[name])
  t.teardown(() => {
    for (const [i, name] of names.entries()) setVariable(name, before[i])
  })
  for (const name of files) setVariable(name, '/nonexistent')
  setVariable('AWS_EC2_METADATA_DISABLED', 'true')
  const blobs = new S3Blobs('s3://bucket?endpoint=http%3A%2F%2F127.0.0.1%3A9&path_style=true', clock, noProxies)
  t.teardown(() => blobs.close())
  const calls = [() => blobs.keyOf('https://example.com/cat.png'), () => blobs.signedUrl({ key: 'a', contentType }, 0)]
  for (const call of calls) await t.throwsAsync(call, { instanceOf: StorageError })
  setVariable('AWS_ACCESS_KEY_ID', 'key')
  setVariable('AWS_SECRET_ACCESS_KEY', 'secret')
  t.is(await blobs.keyOf('https://example.com/cat.png'), null)
})

function setVariable(name: string, value: string | undefined): void {
  if (value === undefined) delete process.env[name]
  else process.env[name] = value
}

/** A server whose answers are `parts` of a megabyte, and no end unless `ends`. */
async function startBucket(t: ExecutionContext, parts: number, ends: boolean): Promise<Blobs> {
  const s3 = http.createServer((_request, response) => {
    response.writeHead(200, { 'content-length': String((parts + (ends ? 0 : 1)) * megabyte) })
    for (let part = 0; part < parts; part++) response.write(Buffer.alloc(megabyte, part))
    if (ends) response.end()
  })
  await once(s3.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => s3.close())
  t.teardown(() => s3.closeAllConnections())
  const endpoint = encodeURIComponent(`http://127.0.0.1:${(s3.address() as AddressInfo).port}`)
  const url = `s3://key:secret@bucket?endpoint=${endpoint}&path_style=true`
  const blobs = new S3Blobs(url, clock, noProxies, { silenceMs })
  t.teardown(() => blobs.close())
  return blobs
}

test('whole for a reader that pauses for longer than the server may be silent, before its last bytes too (s3)', async t => {
  const blobs = await startBucket(t, 20, true)
  const { stream } = (await blobs.read('film'))!
  let bytes = 0
  for await (const part of stream) {
    const before = bytes
    bytes += part.length
    if (before === 0 || (before < 20 * megabyte - 1_000 && bytes >= 20 * megabyte - 1_000)) await sleep(3 * silenceMs)
  }
  t.is(bytes, 20 * megabyte)
})

test('ended: an object whose server falls silent (s3)', async t => {
  const blobs = await startBucket(t, 1, false)
  const { stream } = (await blobs.read('film'))!
  const error = await t.throwsAsync(buffer(stream), { name: 'StorageError' })
  t.true(isOutage(error))
})

test('closed: the file of an object that could not be written, whose room on the disk is free again (s3)', async t => {
  const storageUrl = 's3://key:secret@bucket?endpoint=http%3A%2F%2F127.0.0.1%3A9&path_style=true'
  const blobs = await openBlobs({ storageUrl, publicUrl }, secret, clock)
  t.teardown(() => blobs.close())
  const openFiles = async () => {
    const names = (await readdir('/proc/self/fd')).map(name => readlink(`/proc/self/fd/${name}`).catch(() => ''))
    return (await Promise.all(names)).filter(path => /headgate-[0-9a-f-]{36} \(deleted\)/.test(path))
  }
  await t.throwsAsync(blobs.write('a', parts('a'), contentType))
  await eventually(async () => (await openFiles()).length === 0, 'no removed file is open')
  t.pass()
})

test('refused: a key that would lead out of the folder (file)', async t => {
  const { blobs } = await openFolder()
  for (const key of ['../a', 'a/../../b', '/etc/passwd', 'a//b', '', '.hidden', 'a/.b', 'a\0b'])
    await t.throwsAsync(blobs.read(key), { message: /not a key/ }, key)
})

test('not reachable: the check fails where the folder cannot be (file)', async t => {
  const blobs = await openBlobs({ storageUrl: 'file:/dev/null/storage', publicUrl }, secret, clock)
  await t.throwsAsync(blobs.check())
})

test('closed: a stream that is left open lets go of its file (file)', async t => {
  const { blobs } = await openFolder()
  await blobs.write('a.bin', [Buffer.alloc(1_000_000)] as never, contentType)
  const blob = await blobs.read('a.bin')
  blob!.stream.destroy()
  await once(blob!.stream, 'close')
  t.true(blob!.stream.destroyed)
})
