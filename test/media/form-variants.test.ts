import { Emulator } from '../emulators/emulator.ts'
import { openAiAudio } from '../emulators/openai-audio.ts'
import { openAiImages } from '../emulators/openai-images.ts'
import { formOf, formType, partOf } from '../support/io/raw-requests.ts'
import { answerOf, dataUri } from '../support/jobs/gateway.ts'
import { png } from '../support/media/png.ts'
import { wav } from '../support/media/sounds.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

/** Forms as programs write them that have no library of OpenAI's. */

const emulator = use(test, () =>
  Emulator.start((request, response) =>
    (request.path.includes('/images/') ? openAiImages : openAiAudio)(request, response),
  ),
)
const gateway = useGateway(test, () => ({ OPENAI_API_KEY: 'secret', OPENAI_BASE_URL: `${emulator.url}/v1` }))
const account = use(test, () => gateway.account())
test.beforeEach(() => emulator.reset())

const hearing = '/v1/audio/transcriptions'
const drawing = '/v1/images/edits'
const recording = wav(500)
const sound = partOf('file', recording, 'a.wav', 'audio/wav')
const whisper = partOf('model', 'whisper-1')
const picture = (name: string) => partOf(name, png(8), 'a.png', 'image/png')
const edit = [partOf('model', 'gpt-image-1.5'), partOf('prompt', 'A hat')]

async function send(path: string, body: Buffer, type = formType) {
  const headers = { authorization: `Bearer ${account.live}`, 'content-type': type }
  const response = await fetch(gateway.url + path, { method: 'POST', headers, body: new Uint8Array(body) })
  return { status: response.status, json: await answerOf(response), dropped: response.headers.get('x-gateway-dropped') }
}

/** A part with these headers. */
function rawPart(head: string, content: Buffer | string): Buffer {
  return Buffer.concat([Buffer.from(`--x\r\n${head}\r\n\r\n`), Buffer.from(content), Buffer.from('\r\n')])
}

const sentFields = () =>
  new Response(new Uint8Array(emulator.requests.at(-1)!.raw), {
    headers: { 'content-type': emulator.requests.at(-1)!.headers['content-type']! },
  }).formData()

for (const boundary of ['===1656457491496===', '-XrQHxml_qhW/dc2hip09LUML', 'HyperLog -1663179571660', "a'b(c)d?e:f"])
  test.serial(`200 for the boundary ${boundary}, which is not quoted`, async t => {
    const form = formOf(whisper, sound).toString('latin1').replaceAll('--x', `--${boundary}`)
    for (const type of [
      `multipart/form-data; boundary=${boundary}`,
      `multipart/form-data;boundary=${boundary};charset=utf-8`,
      `Multipart/Form-Data; charset=utf-8; Boundary=${boundary} ;`,
      `multipart/form-data; boundary="${boundary}"`,
    ]) {
      const { status, json } = await send(hearing, Buffer.from(form, 'latin1'), type)
      t.is(status, 200, `${type}: ${JSON.stringify(json)}`)
    }
  })

test.serial('400 without a boundary', async t => {
  for (const type of ['multipart/form-data', 'multipart/form-data; boundary=', 'multipart/form-data; boundary=""']) {
    const { status, json } = await send(hearing, formOf(whisper, sound), type)
    t.is(status, 400, type)
    t.regex(json.error.message, /boundary/)
  }
})

test.serial('200 for lists whose fields are numbered, as those of PHP', async t => {
  const times = ['word', 'segment'].map((value, i) => partOf(`timestamp_granularities[${i}]`, value))
  const heard = await send(hearing, formOf(whisper, partOf('response_format', 'verbose_json'), ...times, sound))
  t.is(heard.status, 200, JSON.stringify(heard.json))
  t.true(heard.json.words.length > 0 && heard.json.segments.length > 0)
  t.is(heard.dropped, null)
  const drawn = await send(drawing, formOf(...edit, picture('image[0]'), picture('image[1]')))
  t.is(drawn.status, 200, JSON.stringify(drawn.json))
  t.is((await sentFields()).getAll('image[]').length, 2)
})

test.serial('200 for texts that are sent as files, by a name or by their type', async t => {
  const byName = rawPart('Content-Disposition: form-data; name="model"; filename="model"', 'whisper-1')
  const head = 'Content-Disposition: form-data; name="prompt"\r\nContent-Type: application/octet-stream'
  const answer = await send(hearing, formOf(byName, rawPart(head, 'Plover, Grüße'), sound))
  t.is(answer.status, 200, JSON.stringify(answer.json))
  t.is((await sentFields()).get('prompt'), 'Plover, Grüße')
  const long = await send(hearing, formOf(whisper, rawPart(head, 'x'.repeat(3_000_000)), sound))
  t.is(long.status, 400)
  t.like(long.json.error, { param: 'prompt', code: 'invalid_request' })
  const twice = await send(hearing, formOf(byName, whisper, sound))
  t.is(twice.status, 400)
  t.like(twice.json.error, { param: 'model' })
})

test.serial('400 naming a file that has another name, also that of a field', async t => {
  for (const name of ['audio', 'audio_url']) {
    const { status, json } = await send(hearing, formOf(whisper, partOf(name, recording, 'a.wav', 'audio/wav')))
    t.is(status, 400)
    t.like(json.error, { code: 'unknown_field', param: name })
  }
  for (const name of ['images', 'images[]']) {
    const { status, json } = await send(drawing, formOf(...edit, picture(name)))
    t.is(status, 400)
    const message = `Unknown field \`${name}\`. Did you mean \`image\`?`
    t.like(json.error, { code: 'unknown_field', param: name, message })
  }
})

test.serial('400 for a file without a name, which says what to do, however long it is', async t => {
  for (const bytes of [recording, wav(70_000)]) {
    const part = rawPart('Content-Disposition: form-data; name="file"\r\nContent-Type: audio/wav', bytes)
    const { status, json } = await send(hearing, formOf(whisper, part))
    t.is(status, 400)
    t.like(json.error, { code: 'missing_field', param: 'file' })
    t.regex(json.error.message, /filename/)
  }
  t.is(emulator.requests.length, 0)
})

test.serial('a file field in which nothing was chosen is absent', async t => {
  const empty = (name: string) =>
    rawPart(`Content-Disposition: form-data; name="${name}"; filename=""\r\nContent-Type: application/octet-stream`, '')
  const drawn = await send(drawing, formOf(...edit, picture('image'), empty('mask')))
  t.is(drawn.status, 200, JSON.stringify(drawn.json))
  t.false((await sentFields()).has('mask'))
  const missing = await send(hearing, formOf(whisper, empty('file')))
  t.is(missing.status, 400)
  t.like(missing.json.error, { code: 'missing_field', param: 'file' })
  const named = await send(hearing, formOf(whisper, partOf('file', '', 'a.wav', 'audio/wav')))
  t.is(named.status, 400)
  t.like(named.json.error, { code: 'invalid_request', param: 'file', message: 'The file is empty.' })
})

test.serial('400 for a part without a name', async t => {
  for (const head of ['Content-Disposition: form-data', 'Content-Disposition: form-data; filename="a.wav"']) {
    const { status, json } = await send(hearing, formOf(whisper, rawPart(head, 'x'), sound))
    t.is(status, 400, JSON.stringify(json))
    t.is(json.error.code, 'invalid_request')
  }
})

test.serial('400 for a text in an unknown charset; 200 for one in another than UTF-8', async t => {
  const prompt = (charset: string) =>
    rawPart(
      `Content-Disposition: form-data; name="prompt"\r\nContent-Type: text/plain; charset=${charset}`,
      Buffer.from('Grüße', 'latin1'),
    )
  const unknown = await send(hearing, formOf(whisper, prompt('binary'), sound))
  t.is(unknown.status, 400, JSON.stringify(unknown.json))
  t.like(unknown.json.error, { code: 'invalid_request', param: 'prompt' })
  t.is((await send(hearing, formOf(whisper, prompt('ISO-8859-1'), sound))).status, 200)
  t.is((await sentFields()).get('prompt'), 'Grüße')
})

const uri = dataUri('audio/wav', recording)

test.serial('200 for a form with a URL in place of its file, by the names of other APIs', async t => {
  for (const path of [hearing, '/v1/audio/translations'])
    for (const name of ['file_url', 'url', 'file', 'audio_url']) {
      const { status, json, dropped } = await send(path, formOf(whisper, partOf(name, uri)))
      t.is(status, 200, `${path} ${name}: ${JSON.stringify(json)}`)
      t.is(dropped, null)
    }
})

test.serial('200 for JSON with the sound by the names of other APIs', async t => {
  const data = recording.toString('base64')
  const sounds: object[] = [
    { input_audio: { data, format: 'wav' } },
    { input_audio: { data: uri, format: 'wav' } },
    { file_url: uri },
    { url: uri },
  ]
  for (const path of [hearing, '/v1/audio/translations'])
    for (const named of sounds) {
      const response = await gateway.fetch(path, { key: account.live, body: { model: 'whisper-1', ...named } })
      t.is(response.status, 200, `${path}: ${await response.clone().text()}`)
      t.is(response.headers.get('x-gateway-dropped'), null)
    }
  for (const named of [{ input_audio: { data: '%%%', format: 'wav' } }, { input_audio: data }, { file: data }]) {
    const body = { model: 'whisper-1', ...named }
    const response = await gateway.fetch(hearing, { key: account.live, body })
    t.is(response.status, 400)
    t.is((await answerOf(response)).error.param, 'audio_url')
  }
})

test.serial('409 for another sound under the same Idempotency-Key', async t => {
  const ask = (bytes: Buffer) => {
    const body = JSON.stringify({ model: 'whisper-1', input_audio: { data: bytes.toString('base64'), format: 'wav' } })
    const headers = {
      authorization: `Bearer ${account.live}`,
      'content-type': 'application/json',
      'idempotency-key': 'heard',
    }
    return fetch(gateway.url + hearing, { method: 'POST', headers, body })
  }
  t.is((await ask(recording)).status, 200)
  t.is((await ask(recording)).headers.get('idempotent-replayed'), 'true')
  t.is((await ask(wav(600))).status, 409)
})
