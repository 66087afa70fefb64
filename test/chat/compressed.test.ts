import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import type { Reply } from '../emulators/emulator.ts'
import { chatChunk } from '../emulators/openai.ts'
import { saying, startWorld } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

/** Answers that a provider, or a proxy before it, has compressed though it was asked not to. */

const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '' }))
test.beforeEach(() => world.openai.reset())

const message = { role: 'assistant', content: 'zipped' }
const head = { id: 'c', object: 'chat.completion', created: 1, model: 'up' }
const whole = JSON.stringify({ ...head, choices: [{ index: 0, message, finish_reason: 'stop' }] })
const streamed = [chatChunk(message), chatChunk({}, 'stop')].map(chunk => `data: ${JSON.stringify(chunk)}\n\n`).join('')

/** The bytes in two packets. */
function compressed(coding: string, bytes: Buffer): Reply {
  return (_request, response) => {
    response.writeHead(200, { 'content-encoding': coding })
    response.write(bytes.subarray(0, 12))
    response.end(bytes.subarray(12))
  }
}

async function ask(stream: boolean) {
  const { live } = await world.gateway.account()
  const response = await world.gateway.fetch('/v1/chat/completions', {
    key: live,
    body: saying('gpt-4.1', 'Hello', { stream }),
  })
  return { status: response.status, text: await response.text() }
}

const codings: [coding: string, compress: (text: string) => Buffer][] = [
  ['gzip', gzipSync],
  ['x-gzip', gzipSync],
  ['deflate', deflateSync],
  ['deflate', deflateRawSync],
  ['br', brotliCompressSync],
  ['zstd', zstdCompressSync],
]
for (const [position, [coding, compress]] of codings.entries())
  test.serial(`200 for an answer in ${coding}, whole and streamed (${position})`, async t => {
    for (const stream of [false, true]) {
      world.openai.next(compressed(coding, compress(stream ? `${streamed}data: [DONE]\n\n` : whole)))
      const { status, text } = await ask(stream)
      t.is(status, 200, text)
      t.true(text.includes('zipped'))
      t.is(world.openai.requests.at(-1)!.headers['accept-encoding'], 'identity')
    }
  })

test.serial('502 after one call for what cannot be decompressed, and for what grows beyond 64 MB', async t => {
  const bomb = gzipSync(Buffer.alloc(70 * 1024 * 1024, ' '))
  for (const bytes of [Buffer.from(whole), gzipSync(whole).subarray(0, 60), bomb]) {
    world.openai.reset()
    world.openai.next(compressed('gzip', bytes))
    const { status, text } = await ask(false)
    t.is(status, 502, text)
    t.is(JSON.parse(text).error.code, 'upstream_invalid_response')
    t.is(world.openai.requests.length, 1)
  }
})
