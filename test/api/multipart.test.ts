import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import http from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { readMultipart } from '../../api/body/multipart.ts'
import { ByteBudget } from '../../shared/io/byte-budget.ts'
import { freeBytes, peek, readWhole } from '../../shared/io/bytes.ts'
import { writeFile } from '../../shared/io/write-file.ts'
import { test } from '../support/test.ts'
import { useFolder } from '../support/use.ts'

const boundary = 'edge'
const peekedBytes = 16 * 1024
type Taken = { fields: Record<string, unknown>; files: Buffer[]; digest: Buffer }

const folder = useFolder(test)
let written = 0

/** What a server takes of a form that is sent in writes of these sizes, over and over, with or without time between them. */
async function sent(form: Buffer, writes: number[], pauseMs = 0): Promise<Taken> {
  const { promise, resolve, reject } = Promise.withResolvers<Taken>()
  const server = http.createServer((request, response) => {
    taken(request)
      .then(resolve, reject)
      .finally(() => response.end())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').setNoDelay()
  try {
    const type = `content-type: multipart/form-data; boundary=${boundary}`
    socket.write(`POST / HTTP/1.1\r\nhost: a\r\n${type}\r\ncontent-length: ${form.length}\r\n\r\n`)
    for (let at = 0, i = 0; at < form.length; i++) {
      const bytes = writes[i % writes.length]!
      if (!socket.write(form.subarray(at, at + bytes))) await once(socket, 'drain')
      at += bytes
      if (pauseMs > 0) await sleep(pauseMs)
    }
    return await promise
  } finally {
    socket.destroy()
    server.close()
    server.closeAllConnections()
  }
}

async function taken(request: http.IncomingMessage): Promise<Taken> {
  const { fields, files, digest } = await readMultipart<Buffer>(request, {
    files: { file: 8 },
    lists: [],
    held: new ByteBudget(2 ** 30, 'tests').open('one'),
    undo: async () => {},
    async take(part) {
      const path = join(folder, String(++written))
      const { head, body } = await peek(part.body, peekedBytes)
      await writeFile(path, body)
      const bytes = await readFile(path)
      return head.equals(bytes.subarray(0, peekedBytes)) ? bytes : Buffer.from('another head')
    },
  })
  return { fields, files: files.map(({ file }) => file), digest }
}

function formOf(files: Buffer[]): Buffer {
  const parts = files.flatMap((file, i) => [
    Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="text${i}"\r\n\r\nvalue ${i}\r\n`),
    Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${i}"\r\n\r\n`),
    file,
    Buffer.from('\r\n'),
  ])
  return Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)])
}

/** Files of what a parser may stumble over, and of enough to fill several reads of a connection. */
const pieces = fc.oneof(
  fc
    .constantFrom('\r', '\r\n', '\r\n-', '\r\n--', '\r\n--edg', '--edge', '\n--edge', '')
    .map(text => Buffer.from(text)),
  fc.record({ bytes: fc.integer({ min: 1, max: 150_000 }), fill: fc.integer({ min: 0, max: 255 }) }).map(numbered),
)
function numbered({ bytes, fill }: { bytes: number; fill: number }): Buffer {
  const piece = Buffer.alloc(bytes, fill)
  for (let at = 0; at + 4 <= bytes; at += 1_000) piece.writeUInt32BE(at, at)
  return piece
}
const anyFile = fc
  .array(pieces, { maxLength: 6 })
  .map(all => Buffer.concat(all))
  .filter(file => !Buffer.concat([Buffer.from('\r\n'), file]).includes(`\r\n--${boundary}`))

test('equal to what was sent: the fields and files of a form that arrives in pieces of any size', async t => {
  const writes = fc.array(fc.integer({ min: 1_000, max: 200_000 }), { minLength: 1, maxLength: 5 })
  await fc.assert(
    fc.asyncProperty(fc.array(anyFile, { minLength: 1, maxLength: 3 }), writes, async (files, sizes) => {
      const form = formOf(files)
      const cut = await sent(form, sizes)
      const whole = await sent(form, [form.length])
      for (const { fields, files: got, digest } of [cut, whole]) {
        t.deepEqual(fields, Object.fromEntries(files.map((_, i) => [`text${i}`, `value ${i}`])))
        t.deepEqual(
          got.map(file => file.length),
          files.map(file => file.length),
        )
        t.true(got.every((file, i) => file.equals(files[i]!)))
        t.true(digest.equals(whole.digest))
      }
    }),
    { numRuns: 40 },
  )
})

test('stored byte for byte: a file whose beginning was read for its type, in small pieces too', async t => {
  const file = numbered({ bytes: 60_000, fill: 7 })
  const { files } = await sent(formOf([file]), [3_000], 5)
  t.true(files[0]!.equals(file))
})

test('freed: bytes that are the whole of their ArrayBuffer; parts, pooled and shared ones stay', async t => {
  const whole = Buffer.allocUnsafeSlow(65_536)
  freeBytes(whole)
  t.is(whole.length, 0)
  const buffer = new ArrayBuffer(65_536)
  const part = new Uint8Array(buffer, 0, 65_535)
  freeBytes(part)
  t.is(part.length, 65_535)
  const pooled = Buffer.from('a text among others')
  freeBytes(pooled)
  t.is(pooled.toString(), 'a text among others')
  const shared = new Uint8Array(new SharedArrayBuffer(65_536))
  freeBytes(shared)
  t.is(shared.length, 65_536)
})

test('RangeError for a body above its limit; one at or below it is read whole', async t => {
  async function* body() {
    for (let i = 0; i < 4; i++) yield Buffer.alloc(5_000, i)
  }
  const expected = Buffer.concat(Array.from({ length: 4 }, (_, i) => Buffer.alloc(5_000, i)))
  t.true(expected.equals(await readWhole(body(), 20_000)))
  t.true(expected.equals(await readWhole(body(), 30_000)))
  await t.throwsAsync(readWhole(body(), 19_999), { instanceOf: RangeError })
})
