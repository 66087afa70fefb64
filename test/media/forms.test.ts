import { randomBytes } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import sharp from 'sharp'
import { operatorActor } from '../../shared/io/audit.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { Emulator, json } from '../emulators/emulator.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { connectTo, formOf, formType, headOf, partOf, readAll } from '../support/io/raw-requests.ts'
import { answerOf } from '../support/jobs/gateway.ts'
import { png } from '../support/media/png.ts'
import { sound, wav } from '../support/media/sounds.ts'
import { syncMediaEnvironment } from '../support/media/world.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

let account: Account
const images = json(200, { created: 1, data: [{ b64_json: png(8).toString('base64') }] })

const emulator = use(test, () => Emulator.start(images))
const gateway = useGateway(test, async () => await syncMediaEnvironment(emulator.url))
test.beforeEach(async () => {
  emulator.reset()
  account = await gateway.account()
})

async function countFiles(): Promise<number> {
  return gateway.services.db.file.count({ where: { organisationId: account.organisationId } })
}

test.serial(
  '200 the same edit again, however its form is cut into packets; 409 for the same bytes in other files',
  async t => {
    const noisy = await Promise.all([1, 2, 3].map(() => picture()))
    const form = (files: Buffer[]) => {
      const parts = files.map(bytes => partOf('image[]', bytes, 'a.png', 'image/png'))
      const fields = [partOf('model', 'draw'), partOf('prompt', 'Again.')]
      return formOf(...fields, ...parts)
    }
    const send = async (body: Buffer, packetBytes: number) => {
      const more = { 'content-type': formType, 'content-length': body.length }
      const socket = await connectTo(gateway.url)
      socket.write(
        headOf('/v1/images/edits', account.live, { ...more, 'idempotency-key': 'edit', connection: 'close' }),
      )
      for (let at = 0; at < body.length; at += packetBytes) {
        socket.write(body.subarray(at, at + packetBytes))
        await turn()
      }
      const answer = (await readAll(socket)).toString()
      return { status: Number(answer.slice(9, 12)), isReplay: answer.includes('idempotent-replayed: true') }
    }
    const body = form(noisy)
    t.deepEqual(await send(body, 1_000_000), { status: 200, isReplay: false })
    for (const packetBytes of [1_000, 5_000, 17_000, 60_000, 1_000_000])
      t.deepEqual(await send(body, packetBytes), { status: 200, isReplay: true }, `packets of ${packetBytes}`)
    const [first, second, third] = noisy
    const moved = [Buffer.concat([first!, second!.subarray(0, 100)]), second!.subarray(100), third!]
    t.not((await send(form(moved), 1_000_000)).status, 200)
    t.is((await send(form([second!, first!, third!]), 1_000_000)).status, 409)
    t.is(await countFiles(), 0)
    t.is(emulator.requests.length, 1)
  },
)

/** An image that is larger than what is looked at in advance, and whose bytes are nowhere else. */
async function picture(): Promise<Buffer> {
  const raw = { width: 100, height: 100, channels: 3 } as const
  return sharp(randomBytes(30_000), { raw }).png().toBuffer()
}

const recording = partOf('file', wav(500), 'a.wav', 'audio/wav')

test.serial('400 naming a form’s field by its own name, whatever it is called and whatever is in it', async t => {
  const cases: [name: string, value: string, code: string, param: string][] = [
    ['audio_url', 'https://example.com/a.wav', 'unknown_field', 'audio_url'],
    ['temperature', '0x1', 'invalid_request', 'temperature'],
    ['temperature', ' 1', 'invalid_request', 'temperature'],
    ['stream', 'yes', 'invalid_request', 'stream'],
    ['prompt', 'x'.repeat(300_000), 'invalid_request', 'prompt'],
  ]
  for (const [name, value, code, param] of cases) {
    const body = formOf(partOf(name, value), recording, partOf('model', 'hear'))
    const headers = { authorization: `Bearer ${account.live}`, 'content-type': formType }
    const answer = await fetch(`${gateway.url}/v1/audio/transcriptions`, { method: 'POST', headers, body })
    t.is(answer.status, 400, name)
    t.like((await answerOf(answer)).error, { code, param }, `${name}: ${value.slice(0, 20)}`)
  }
  t.is(await countFiles(), 0)
  t.is(emulator.requests.length, 0)
})

test.serial('200 with a form’s fields that have the names of what every object inherits, once or twice', async t => {
  for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', '[]', '[a]']) {
    emulator.next(json(200, { text: 'Hello.' }))
    const body = formOf(partOf(name, 'x'), partOf(name, 'y'), recording, partOf('model', 'hear'))
    const headers = { authorization: `Bearer ${account.live}`, 'content-type': formType }
    const answer = await fetch(`${gateway.url}/v1/audio/transcriptions`, { method: 'POST', headers, body })
    t.is(answer.status, 200, `${name}: ${await answer.clone().text()}`)
  }
  await eventually(async () => (await countFiles()) === 0, 'no file is left')
})

test.serial(
  '200 for forms with empty fields, which are absent, and flags as Python and numbers write them',
  async t => {
    const drawing = partOf('image', png(8), 'a.png', 'image/png')
    const hearing = ['language', 'prompt', 'response_format', 'temperature', 'timestamp_granularities[]', 'keywords[]']
    const forms: [path: string, file: Buffer, model: string, prompt: string, empty: string[]][] = [
      ['/v1/audio/transcriptions', recording, 'hear', '', [...hearing, 'chunking_strategy']],
      ['/v1/images/edits', drawing, 'draw', 'A hat', ['n', 'size', 'response_format', 'quality', 'user', 'seed']],
    ]
    for (const [path, file, model, prompt, empty] of forms)
      for (const flag of ['False', 'false', 'FALSE', '0', '']) {
        const fields = [partOf('model', model), partOf('stream', flag), ...empty.map(name => partOf(name, ''))]
        const body = formOf(...fields, ...(prompt ? [partOf('prompt', prompt)] : []), file)
        if (model === 'hear') emulator.next(json(200, { text: 'plover' }))
        const headers = { authorization: `Bearer ${account.live}`, 'content-type': formType }
        const answer = await fetch(`${gateway.url}${path}`, { method: 'POST', headers, body })
        t.is(answer.status, 200, `${path} ${flag}: ${await answer.text()}`)
        t.regex(answer.headers.get('content-type')!, /^application\/json/)
      }
    for (const flag of ['True', '1']) {
      const body = formOf(partOf('model', 'draw'), partOf('prompt', 'A hat'), partOf('stream', flag), drawing)
      const headers = { authorization: `Bearer ${account.live}`, 'content-type': formType }
      const answer = await fetch(`${gateway.url}/v1/images/edits`, { method: 'POST', headers, body })
      t.is(answer.status, 200, await answer.text())
      t.regex(answer.headers.get('content-type')!, /^text\/event-stream/)
    }
  },
)

test.serial('400 naming a required field of a form that is empty', async t => {
  const body = formOf(partOf('model', 'draw'), partOf('prompt', ''), partOf('image', png(8), 'a.png', 'image/png'))
  const headers = { authorization: `Bearer ${account.live}`, 'content-type': formType }
  const answer = await fetch(`${gateway.url}/v1/images/edits`, { method: 'POST', headers, body })
  t.is(answer.status, 400)
  t.like((await answerOf(answer)).error, { code: 'missing_field', param: 'prompt' })
})

test.serial('200 in base64 for an image by Together’s name of it, as JSON and as a form', async t => {
  const form = [partOf('model', 'draw'), partOf('prompt', 'A hat'), partOf('response_format', 'base64')]
  const asForm = formOf(...form, partOf('image', png(8), 'a.png', 'image/png'))
  const asJson = JSON.stringify({ model: 'draw', prompt: 'A hat', response_format: 'base64' })
  for (const [path, type, body] of [
    ['/v1/images/edits', formType, asForm],
    ['/v1/images/generations', 'application/json', asJson],
  ] as const) {
    const headers = { authorization: `Bearer ${account.live}`, 'content-type': type }
    const answer = await fetch(`${gateway.url}${path}`, { method: 'POST', headers, body })
    const text = await answer.text()
    t.is(answer.status, 200, text)
    t.is(typeof JSON.parse(text).data[0].b64_json, 'string')
  }
})

test.serial('200 for speech with empty instructions, which are absent', async t => {
  const spoken = await sound('mp3', 1)
  emulator.next((_request, response) => {
    response.writeHead(200, { 'content-type': 'audio/mpeg' }).end(spoken)
  })
  const headers = { authorization: `Bearer ${account.live}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ model: 'speak', input: 'Hello', voice: 'nova', instructions: '' })
  const answer = await fetch(`${gateway.url}/v1/audio/speech`, { method: 'POST', headers, body })
  const bytes = Buffer.from(await answer.arrayBuffer())
  t.is(answer.status, 200, bytes.toString())
  t.false('instructions' in (emulator.requests.at(-1)!.body as object))
})

test.serial('401 and no file is left when the key is revoked while a wrong form comes in', async t => {
  await gateway.fetch('/v1/models', { key: account.live })
  const body = formOf(recording, partOf('response_format', 'docx'))
  const more = { 'content-type': formType, 'content-length': body.length }
  const socket = await connectTo(gateway.url)
  socket.write(headOf('/v1/audio/transcriptions', account.live, { ...more, connection: 'close' }))
  socket.write(body.subarray(0, 20_000))
  await eventually(async () => (await countFiles()) === 1, 'the file comes in')
  await gateway.services.keys.revoke(account.organisationId, hashSecret(account.live), operatorActor)
  socket.write(body.subarray(20_000))
  const answer = (await readAll(socket)).toString()
  t.true(answer.startsWith('HTTP/1.1 401'), answer)
  t.is(await countFiles(), 0)
})
