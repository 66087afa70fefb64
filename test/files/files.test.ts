import type { ReadStream } from 'node:fs'
import { createConnection } from 'node:net'
import type { Readable } from 'node:stream'
import { freePort } from '../../dev/ports.ts'
import { Files, type StoredFile } from '../../shared/files/files.ts'
import { openDatabase } from '../../shared/io/db.ts'
import type { Blobs } from '../../shared/io/storage/blobs.ts'
import { runMaintenance } from '../../workers/maintenance.ts'
import { eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { useGateway } from '../support/use.ts'

let organisationId: string
let nowMs = Math.floor(Date.now() / 1000) * 1000
const gateway = useGateway(test, {}, { clock: { now: () => nowMs } })
test.before(async () => {
  organisationId = (await gateway.account()).organisationId
})

const contentType = 'video/mp4'
const hourMs = 3_600_000

async function* parts(...texts: string[]) {
  for (const text of texts) yield Buffer.from(text)
}
const newFile = (lifeMs = hourMs) => ({
  organisationId,
  environment: 'live' as const,
  purpose: 'result' as const,
  filename: 'film é.mp4',
  contentType,
  expiresAtMs: nowMs + lifeMs,
})
const store = (text = '0123456789', lifeMs = hourMs) => gateway.services.files.store(parts(text), newFile(lifeMs))

async function addressOf({ storageKey }: StoredFile, filename = 'film é.mp4'): Promise<string> {
  const url = await gateway.services.blobs.signedUrl({ key: storageKey, contentType, filename }, nowMs + hourMs)
  return url.slice(gateway.url.length)
}
const rows = (id: string) => gateway.services.db.file.count({ where: { id } })

test('200 with the file, its type and its name, without a key', async t => {
  const file = await store()
  t.is(file.bytes, 10)
  t.regex(file.storageKey, new RegExp(`^results/${organisationId}/${file.fileId}\\.mp4$`))
  const response = await gateway.fetch(await addressOf(file))
  t.is(response.status, 200)
  const header = (name: string) => response.headers.get(name)
  t.is(header('content-type'), contentType)
  t.is(header('content-length'), '10')
  t.is(header('accept-ranges'), 'bytes')
  t.is(header('x-content-type-options'), 'nosniff')
  t.is(header('content-security-policy'), 'sandbox')
  t.is(header('access-control-allow-origin'), '*')
  t.is(header('cache-control'), 'private, max-age=3600')
  t.is(header('content-disposition'), `inline; filename="film _.mp4"; filename*=UTF-8''film%20%C3%A9.mp4`)
  t.is(await response.text(), '0123456789')
})

const ranges: [range: string, status: number, body: string, contentRange: string | null][] = [
  ['bytes=0-3', 206, '0123', 'bytes 0-3/10'],
  ['bytes=4-', 206, '456789', 'bytes 4-9/10'],
  ['bytes=-3', 206, '789', 'bytes 7-9/10'],
  ['bytes=-100', 206, '0123456789', 'bytes 0-9/10'],
  ['bytes=8-100', 206, '89', 'bytes 8-9/10'],
  ['bytes=0-', 206, '0123456789', 'bytes 0-9/10'],
  ['bytes=10-', 416, '', 'bytes */10'],
  ['bytes=-0', 416, '', 'bytes */10'],
  ['bytes=5-2', 200, '0123456789', null],
  ['bytes=0-1,3-4', 200, '0123456789', null],
  ['lines=0-1', 200, '0123456789', null],
  ['bytes=-', 200, '0123456789', null],
]
for (const [range, status, body, contentRange] of ranges) {
  test(`${status} for ${range}`, async t => {
    const path = await addressOf(await store())
    for (const method of ['GET', 'HEAD']) {
      const response = await gateway.fetch(path, { method, headers: { range, 'if-range': '"anything"' } })
      t.is(response.status, status)
      t.is(response.headers.get('content-range'), contentRange)
      t.is(response.headers.get('content-length'), String(body.length))
      t.is(await response.text(), method === 'GET' ? body : '')
    }
  })
}

test.serial('404 for an address that was changed, has expired, or leads nowhere', async t => {
  const path = await addressOf(await store())
  const gone = await store()
  const goneAddress = await addressOf(gone)
  await gateway.services.files.remove([gone])
  const wrong = [
    path.replace('type=video', 'type=text'),
    path.replace('/results/', '/uploads/'),
    path.replace(/name=[^&]*/, 'name=other.html'),
    path.replace(/expires=\d+/, 'expires=99999999999'),
    path.replace(/signature=.{4}/, 'signature=AAAA'),
    path.replace('/files/results', '/files/../files/results/..%2f..'),
    goneAddress,
  ]
  for (const address of wrong) {
    const response = await gateway.fetch(address)
    t.is(response.status, 404, address)
    t.like(await response.json(), { error: { code: 'not_found' } })
  }
  nowMs += hourMs
  t.is((await gateway.fetch(path)).status, 404)
  nowMs -= hourMs
  t.is((await gateway.fetch(path)).status, 200)
})

test('400 for an address without its query', async t => {
  const path = await addressOf(await store())
  t.is((await gateway.fetch(path.slice(0, path.indexOf('?')))).status, 400)
})

test('200: a file is read no faster than the client takes it', async t => {
  const bytes = 60_000_000
  const pieces = async function* () {
    for (let at = 0; at < bytes; at += 1_000_000) yield Buffer.alloc(1_000_000)
  }
  const file = await gateway.services.files.store(pieces(), newFile())
  const streams: Readable[] = []
  const { blobs } = gateway.services
  const read = blobs.read.bind(blobs)
  blobs.read = async (key, range) => {
    const blob = await read(key, range)
    if (blob && key === file.storageKey) streams.push(blob.stream)
    return blob
  }
  const { hostname, port } = new URL(gateway.url)
  const socket = createConnection(Number(port), hostname)
  socket.pause()
  socket.write(`GET ${await addressOf(file)} HTTP/1.1\r\nhost: x\r\n\r\n`)
  await eventually(() => streams.length === 2, 'the file is opened')
  blobs.read = read
  const body = streams[1] as ReadStream
  await eventually(() => body.isPaused() || body.readableFlowing === false, 'reading pauses')
  t.true(body.bytesRead < bytes / 2, `${body.bytesRead} bytes read`)
  socket.destroy()
  await eventually(() => body.destroyed, 'the file is closed when the client leaves')
})

test('removed: a file whose body fails leaves no row and no bytes', async t => {
  const failing = async function* () {
    yield Buffer.alloc(100_000)
    throw new Error('the provider hung up')
  }
  await t.throwsAsync(gateway.services.files.store(failing(), { ...newFile(), id: 'file-fails' }), {
    message: 'the provider hung up',
  })
  t.is(await rows('file-fails'), 0)
  t.is(await gateway.services.blobs.read(`results/${organisationId}/file-fails.mp4`), null)
})

test('kept: a file that is removed while the database is away, with its bytes', async t => {
  const file = await store()
  const { blobs, clock, config } = gateway.services
  const db = openDatabase(`postgresql://nobody@127.0.0.1:${await freePort()}/none`, {
    connections: 1,
    statementTimeoutMs: 1_000,
  })
  t.teardown(() => db.$disconnect())
  await t.throwsAsync(new Files({ db, blobs, clock, quotas: config.quotas }).remove([file]))
  t.is(await rows(file.fileId), 1)
  const blob = await blobs.read(file.storageKey)
  t.is(blob?.bytes, 10)
  blob?.stream.destroy()
})

test('removed: by the maintenance task, when a removal was interrupted', async t => {
  const { blobs, clock, config, files, db } = gateway.services
  const file = await store()
  const failing = { ...blobs, remove: () => Promise.reject(new Error('the storage is away')) }
  const interrupted = new Files({
    db,
    blobs: failing as unknown as Blobs,
    clock,
    quotas: config.quotas,
  })
  await t.throwsAsync(interrupted.remove([file]), { message: 'the storage is away' })
  t.is(await rows(file.fileId), 1)
  await files.expire(nowMs)
  t.is(await rows(file.fileId), 0)
  t.is(await blobs.read(file.storageKey), null)
})

test('replaced: a file of the same id', async t => {
  const { files, blobs } = gateway.services
  await files.store(parts('first'), { ...newFile(), id: 'file-again' })
  const again = await files.store(parts('second one'), { ...newFile(), id: 'file-again' })
  t.is(await rows('file-again'), 1)
  const blob = await blobs.read(again.storageKey)
  t.is(blob?.bytes, 10)
  blob?.stream.destroy()
})

test('held: an own file stays for the jobs that refer to it; no other organisation’s, and none that is about to expire', async t => {
  const { files, db } = gateway.services
  const file = await store()
  const other = (await gateway.account()).organisationId
  t.is(await files.retain(other, file.storageKey), null)
  t.is(await files.retain(organisationId, `results/${organisationId}/file-unknown.mp4`), null)
  t.is((await files.retain(organisationId, file.storageKey))?.id, file.fileId)
  const row = await db.file.findUniqueOrThrow({ where: { id: file.fileId } })
  t.is(row.expiresAt.getTime(), nowMs + 24 * hourMs)
  const short = await store('x', 30_000)
  t.is(await files.retain(organisationId, short.storageKey), null)
  const long = await store('x', 48 * hourMs)
  t.is((await files.retain(organisationId, long.storageKey))?.expiresAt.getTime(), nowMs + 48 * hourMs)
})

test.serial('expired: bytes and rows are deleted by the housekeeping, and nothing else', async t => {
  const { db, blobs, files } = gateway.services
  const kept = await store('kept', 3 * hourMs)
  const going = await Promise.all(Array.from({ length: 5 }, () => store('going', hourMs)))
  await db.file.createMany({
    data: Array.from({ length: 700 }, (_, i) => ({
      id: `file-bulk-${i}`,
      organisationId,
      environment: 'live',
      purpose: 'result',
      filename: 'x',
      bytes: 1n,
      contentType,
      storageKey: `results/${organisationId}/file-bulk-${i}.mp4`,
      expiresAt: new Date(nowMs + hourMs),
    })),
  })
  nowMs += 2 * hourMs
  await runMaintenance('expire', null, gateway.services)
  for (const { fileId, storageKey } of going) {
    t.is(await rows(fileId), 0)
    t.is(await blobs.read(storageKey), null)
  }
  t.is(await db.file.count({ where: { id: { startsWith: 'file-bulk-' } } }), 0)
  t.is(await rows(kept.fileId), 1)
  const blob = await blobs.read(kept.storageKey)
  t.is(blob?.bytes, 4)
  blob?.stream.destroy()
  t.is(await files.expire(nowMs), 0)
})
