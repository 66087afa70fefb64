import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import sharp from 'sharp'
import { type SoundFormat, soundTypes } from '../../shared/kinds/sound.ts'
import type { Recorded } from '../emulators/emulator.ts'
import { eventually } from '../support/gateway.ts'
import { wallet } from '../support/jobs/gateway.ts'
import { type Case, casesOf } from '../support/media/cases.ts'
import { type Offer, offers, operatorCatalog, unserved } from '../support/media/offers.ts'
import { priceOf } from '../support/media/price.ts'
import { startProviders, upstreamSecret } from '../support/media/providers.ts'
import { decodedSeconds } from '../support/media/sounds.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useFolder, useGateway } from '../support/use.ts'

/** Every model of images and sound at every provider, through the whole gateway: what is given, what it costs, who was asked. */

const folder = useFolder(test)
const storage = useFolder(test)
let expectedNano = 0
let requests = 0

const catalog = join(folder, 'catalog.json')
test.before(() => writeFile(catalog, JSON.stringify(operatorCatalog)))
const providers = use(test, startProviders)
const gateway = useGateway(test, () => ({ ...providers.env, MODEL_CATALOG: catalog, STORAGE_URL: `file:${storage}` }))
const account = use(test, () => gateway.account({ usd: '1000' }))

for (const offer of offers) {
  const { kind, row, deployment } = offer
  test(`200: ${kind} of ${row.id} at ${deployment.provider}`, async t => {
    const cases = casesOf(offer)
    t.true(cases.length > 0)
    await Promise.all(cases.map(asked => served(t, offer, asked)))
  })
}

test('served: every enabled model has a provider', t => {
  t.deepEqual(unserved, [])
})

/** Asks for it, and looks at everything that came of it. */
async function served(t: ExecutionContext, { kind, deployment }: Offer, asked: Case): Promise<void> {
  const { what } = asked
  const { path, body, file } = asked
  const response = await (file ? sendForm(path, body, file) : gateway.fetch(path, { key: account.live, body }))
  const bytes = Buffer.from(await response.bytes())
  if (response.status !== 200) return t.fail(`${what}: ${response.status} ${bytes}`)
  const { headers } = response
  t.like([headers.get('x-gateway-provider'), headers.get('x-gateway-attempts')], [deployment.provider, '1'], what)
  const look = { image: pictures, transcription: transcript, speech: sound, music: sound, sfx: sound }[kind]
  await look(t, asked, response, bytes)
  const costNano = priceOf(deployment.price, asked.used)
  await billed(t, what, headers.get('x-generation-id')!, costNano)
  const shown = headers.get('x-gateway-cost-usd')
  if (shown !== null) t.is(Math.round(Number(shown) * 1e9), costNano, what)
  const model = (asked.references.length > 0 && deployment.traits?.by_mode?.edit?.model) || deployment.upstream_model
  upstream(t, deployment.provider, String(model).split(':').at(-1)!, asked)
  expectedNano += costNano
  requests++
}

function sendForm(path: string, body: object, file: Buffer): Promise<Response> {
  const form = new FormData()
  for (const [name, value] of Object.entries(body)) form.append(name, String(value))
  form.append('file', new Blob([new Uint8Array(file)], { type: 'audio/wav' }), 'heard.wav')
  return fetch(gateway.url + path, { method: 'POST', headers: { authorization: `Bearer ${account.live}` }, body: form })
}

async function pictures(t: ExecutionContext, asked: Case, _response: Response, bytes: Buffer): Promise<void> {
  const { what, images, format, ratio } = asked
  const { data } = JSON.parse(bytes.toString()) as { data: { b64_json: string }[] }
  t.is(data.length, images, what)
  for (const { b64_json } of data) {
    const picture = sharp(Buffer.from(b64_json, 'base64'))
    const { format: given, width, height } = await picture.metadata()
    await picture.raw().toBuffer() // Decodes all of it.
    if (format) t.is(given, format as never, what)
    if (ratio) t.true(Math.abs(width / height / ratio - 1) < 0.06, `${what}: ${width}x${height}`)
  }
}

const beginnings: Record<SoundFormat, RegExp> = {
  mp3: /^(?:ID3|\xff[\xe2-\xff])/,
  opus: /^OggS.{24,}OpusHead/s,
  aac: /^\xff[\xf0\xf1\xf8\xf9]/,
  flac: /^fLaC/,
  wav: /^RIFF....WAVE/s,
  pcm: /^/,
}

async function sound(t: ExecutionContext, { what, format }: Case, response: Response, bytes: Buffer): Promise<void> {
  const wanted = format as SoundFormat
  t.is(response.headers.get('content-type'), soundTypes[wanted], what)
  t.regex(bytes.toString('latin1', 0, 64), beginnings[wanted], what)
  t.true((await decodedSeconds(bytes, wanted)) > 0.4, what)
}

const transcripts: Record<string, RegExp> = {
  json: /^\{"text":"[^"]{5,}","usage":\{.*\}\}$/,
  text: /^[A-Z][^\n]+\n$/,
  srt: /^1\n00:00:0\d,\d{3} --> 00:00:0\d,\d{3}\n\S/,
  vtt: /^WEBVTT\n\n00:00:0\d\.\d{3} --> 00:00:0\d\.\d{3}\n\S/,
  verbose_json: /^\{"task":"transcribe",.*"segments":\[\{"id":0,/,
  diarized_json: /^\{"task":"transcribe",.*"segments":\[\{"type":"transcript\.text\.segment",.*"speaker":"A"/,
  events: /^data: \{"type":"transcript\.text\.delta".*data: \{"type":"transcript\.text\.done".*data: \[DONE\]\n\n$/s,
}

async function transcript(
  t: ExecutionContext,
  { what, format }: Case,
  _response: Response,
  bytes: Buffer,
): Promise<void> {
  t.regex(bytes.toString(), transcripts[format!]!, what)
}

/** One line in the log, and one entry in the ledger. */
async function billed(t: ExecutionContext, what: string, id: string, costNano: number): Promise<void> {
  const { db } = gateway.services
  await eventually(async () => (await db.generation.count({ where: { id } })) > 0, `${id} is booked`)
  const lines = await db.generation.findMany({ where: { id } })
  t.deepEqual(
    lines.map(line => [line.status, Number(line.costNano)]),
    [[200, costNano]],
    what,
  )
}

/** The requests that the provider got: as many as there must be, for its own model, with the API key in its header only. */
function upstream(t: ExecutionContext, provider: string, model: string, asked: Case): void {
  const { what, mark, made, references } = asked
  const all = providers.emulators.get(provider)!.requests
  const got = all.filter(({ method, raw }) => method === 'POST' && raw.includes(mark))
  t.is(got.length, made, what)
  for (const request of got) {
    const { path, query, headers, raw } = request
    t.true(`${path}?${query} ${raw.toString('latin1')}`.includes(model), `${what}: ${path}`)
    t.is(Object.values(headers).filter(value => String(value).includes(upstreamSecret)).length, 1, what)
    t.false(`${path}?${query} ${raw.toString('latin1')}`.includes(upstreamSecret), what)
    t.is(handedOn(request, references), references.length, what)
  }
}

/** How many of these files a request hands on: as they are, in base64, or as addresses of the gateway. */
function handedOn({ raw }: Recorded, files: Buffer[]): number {
  const addresses = raw.toString('latin1').split(`"${gateway.url}/`).length - 1
  return addresses || files.filter(bytes => raw.includes(bytes) || raw.includes(bytes.toString('base64'))).length
}

test.after.always('clean: the ledger, the log and the storage after all of them', async t => {
  t.deepEqual(await gateway.settled(), [])
  const { organisationId } = account
  t.is(await gateway.services.db.generation.count({ where: { organisationId } }), requests)
  const { balance_usd, reserved_usd } = await wallet(gateway, account)
  t.deepEqual([Math.round(balance_usd * 1e9), reserved_usd], [1000e9 - expectedNano, 0])
  t.is(await gateway.services.db.file.count(), 0)
  const left = await readdir(storage, { recursive: true, withFileTypes: true })
  t.deepEqual(
    left.filter(entry => entry.isFile()).map(({ name }) => name),
    [],
  )
})
