// How much a web process grows while clients send files all at once, to be kept or to be written down by a provider:
// node bench/uploads.ts [files] [MiB of each] [uploads|transcriptions]
import { mkdtemp, rm } from 'node:fs/promises'
import http from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { residentKib } from './lib/proc.ts'
import { commandOf, start } from './lib/processes.ts'
import { openStores } from './stores.ts'

const uploads = Number(process.argv[2] ?? 200)
const mib = Number(process.argv[3] ?? 20)
const transcribes = process.argv[4] === 'transcriptions'
const path = transcribes ? '/v1/audio/transcriptions' : '/v1/uploads'
/** MP3 frames of 128 kbit/s at 48 kHz. */
const frameBytes = 384
const partBytes = transcribes ? 170 * frameBytes : 64 * 1024
const sampleMs = 20
const readyWithinMs = 30_000
const boundary = 'x'
const model = transcribes ? `--${boundary}\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n` : ''
const file = transcribes
  ? 'filename="a.mp3"\r\nContent-Type: audio/mpeg'
  : 'filename="a.mp4"\r\nContent-Type: video/mp4'
const head = Buffer.from(`${model}--${boundary}\r\nContent-Disposition: form-data; name="file"; ${file}\r\n\r\n`)
const tail = Buffer.from(`\r\n--${boundary}--\r\n`)

const provider = await startProvider()
const folder = await mkdtemp(join(tmpdir(), 'headgate-uploads-'))
const stores = await openStores(folder, 'http://127.0.0.1:9', []).catch(async error => {
  await rm(folder, { recursive: true, force: true })
  throw error
})
const port = await freePort()
const env = {
  ...stores.env,
  PORT: String(port),
  STORAGE_URL: `file:${join(folder, 'storage')}`,
  OPENAI_API_KEY: 'upstream',
  OPENAI_BASE_URL: `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`,
}
// As `npm start` has it.
const command = await commandOf('start', null)
const web = start(command, { logFile: join(folder, 'web.log'), env, processors: null })
try {
  await ready()
  // What is loaded and compiled at the first upload is no matter of how many there are.
  for (let i = 0; i < 5; i++) await upload(1)
  await sleep(1_000)
  const before = residentKib([web.child.pid!])
  let max = before
  const sampling = setInterval(() => {
    max = Math.max(max, residentKib([web.child.pid!]))
  }, sampleMs)
  const startedMs = performance.now()
  const statuses = await Promise.all(Array.from({ length: uploads }, () => upload(mib)))
  const seconds = (performance.now() - startedMs) / 1000
  clearInterval(sampling)
  const failed = statuses.filter(status => status !== (transcribes ? 200 : 201)).length
  console.log(
    `${uploads} ${transcribes ? 'transcriptions' : 'uploads'} of ${mib} MiB at once: ${seconds.toFixed(1)} s, ${((uploads * mib) / seconds).toFixed(0)} MiB/s`,
  )
  console.log(`failed: ${failed} (statuses: ${[...new Set(statuses)].join(', ')})`)
  console.log(`resident memory: ${(before / 1024).toFixed(0)} MiB before, ${(max / 1024).toFixed(0)} MiB at most`)
  console.log(`growth: ${((max - before) / 1024).toFixed(0)} MiB`)
  process.exitCode = failed > 0 ? 1 : 0
} finally {
  await web.stop()
  await stores.stop()
  provider.close()
  provider.closeAllConnections()
  await rm(folder, { recursive: true, force: true })
}

/** A provider that hears the same in every file. */
async function startProvider(): Promise<http.Server> {
  const answer = JSON.stringify({ text: 'Hello.', usage: { type: 'duration', seconds: 1 } })
  const server = http.createServer((request, response) => {
    request.resume().on('end', () => response.setHeader('content-type', 'application/json').end(answer))
  })
  server.listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  return server
}

/** The parts of a file: a video whose content is not read, or MP3 frames of silence, whose length is measured. */
function partsOf(): { first: Buffer; part: Buffer } {
  const part = Buffer.alloc(partBytes)
  if (transcribes) {
    for (let at = 0; at < partBytes; at += frameBytes) part.set([0xff, 0xfb, 0x94, 0x00], at)
    return { first: part, part }
  }
  const first = Buffer.alloc(partBytes)
  first.writeUInt32BE(24, 0)
  first.write('ftypisom', 4)
  first.write('isommp42', 16)
  return { first, part }
}

/** Sends one file of so many MiB, no faster than it is taken; gives the status. One that is refused is not sent to its end. */
async function upload(mib: number): Promise<number> {
  const parts = Math.floor((mib * 1024 * 1024) / partBytes)
  const { first, part } = partsOf()
  const request = http.request({
    host: '127.0.0.1',
    port,
    path,
    method: 'POST',
    headers: {
      authorization: `Bearer ${stores.key}`,
      'content-type': `multipart/form-data; boundary=${boundary}`,
      'content-length': head.length + parts * partBytes + tail.length,
    },
  })
  const answered = new Promise<number>((resolve, reject) => {
    request.on('response', response => {
      response.resume()
      if (!request.writableEnded) request.destroy()
      resolve(response.statusCode!)
    })
    request.on('error', reject)
  })
  request.write(head)
  for (let i = 0; i < parts && !request.destroyed; i++)
    if (!request.write(i === 0 ? first : part)) await Promise.race([drained(request), answered])
  request.end(tail)
  return answered
}

function drained(request: http.ClientRequest): Promise<void> {
  return new Promise(resolve => request.once('drain', resolve))
}

async function ready(): Promise<void> {
  for (const deadline = Date.now() + readyWithinMs; Date.now() < deadline; await sleep(50)) {
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => null)
    if (answer?.ok) return
  }
  throw new Error('the web process is not ready')
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise(resolve => server.close(resolve))
  return port
}
