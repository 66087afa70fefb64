import { readdir } from 'node:fs/promises'
import { stageReferences } from '../../shared/files/references.ts'
import { sourcesOf } from '../../shared/files/sources.ts'
import type { MediaType, ReferenceField } from '../../shared/kinds/media.ts'
import { openSsrfWorld } from '../support/io/ssrf.ts'
import { movie, mp3, mp3FrameS, mp3Of, mp4Of, png, wav } from '../support/media/media-files.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

/** What the public server of the world serves, by path. */
const served = new Map<string, Buffer>()
let maxAtOnce = 0
let atOnce = 0

const world = use(test, openSsrfWorld)
const gateway = useGateway(test)
const account = use(test, () => gateway.account())
test.before(() => {
  Object.assign(gateway.services.urlPolicy, world.door)
  world.respond = (request, response) => {
    maxAtOnce = Math.max(maxAtOnce, ++atOnce)
    response.on('close', () => atOnce--)
    const file = served.get(request.url ?? '')
    if (file) setImmediate(() => response.end(file))
    else response.writeHead(404).end()
  }
})

const field = (url: string, type: MediaType = 'image', measured = false, name = `${type}_url`): ReferenceField => ({
  field: name,
  url,
  type,
  measured,
})
const dataUri = (bytes: Buffer, type = 'application/octet-stream') => `data:${type};base64,${bytes.toString('base64')}`
function serve(name: string, bytes: Buffer): string {
  served.set(`/${name}`, bytes)
  return world.url + name
}
const stage = (fields: ReferenceField[], organisationId = account.organisationId) =>
  stageReferences(gateway.services, { organisationId, environment: 'live' }, fields)
const countFiles = (organisationId: string) => gateway.services.db.file.count({ where: { organisationId } })

async function upload(bytes: Buffer, key = account.live): Promise<{ id: string; url: string }> {
  const body = new FormData()
  body.append('file', new Blob([new Uint8Array(bytes)]), 'a')
  const headers = { authorization: `Bearer ${key}` }
  const response = await fetch(`${gateway.url}/v1/uploads`, { method: 'POST', headers, body })
  return (await response.json()) as { id: string; url: string }
}

test('staged: an upload stays where it is, a data: URI and a public file are copied', async t => {
  const { organisationId, live } = await gateway.account()
  const { id, url } = await upload(png(300), live)
  const references = await stage(
    [
      field(url, 'image', false, 'start_image_url'),
      field(dataUri(png(400), 'image/png'), 'image', false, 'input_references.0'),
      field(serve('a.mp4', await movie('mp4', { videoS: 2 })), 'video', true, 'input_video_url'),
    ],
    organisationId,
  )
  t.deepEqual(Object.keys(references).sort(), ['input_references.0', 'input_video_url', 'start_image_url'])
  t.deepEqual(references.start_image_url, {
    storageKey: `uploads/${organisationId}/${id}.png`,
    contentType: 'image/png',
    bytes: 300,
    filename: 'a',
    durationS: null,
  })
  t.like(references['input_references.0'], { contentType: 'image/png', bytes: 400, durationS: null })
  t.like(references.input_video_url, { contentType: 'video/mp4', durationS: 2 })
  t.regex(references.input_video_url!.storageKey, new RegExp(`^references/${organisationId}/file-\\w+\\.mp4$`))
  t.is(await countFiles(organisationId), 3)
})

const png64 = png(400).toString('base64')
const uris: [what: string, uri: string][] = [
  ['parameters', `data:video/webm;codecs=vp8,opus;base64,${png64}`],
  ['quoted parameters', `data:video/mp4;codecs="avc1.42E01E, mp4a.40.2";base64,${png64}`],
  ['quoted parameters with a semicolon', `data:image/png;name="a;b, c.png";base64,${png64}`],
  ['a name with a space', `data:image/png;name=my picture.png;base64,${png64}`],
  ['spaces between parameters', `data:image/png; charset=utf-8; base64, ${png64}`],
  ['capitals', `DATA:IMAGE/PNG;Charset=UTF-8;BASE64,${png64}`],
  ['no type', `data:;base64,${png64}`],
  ['a parameter without a value', `data:image/png;utf8;base64,${png64}`],
  ['lines', `\n data:image/png;base64,\r\n${png64.replace(/.{76}/g, '$&\r\n ')}\n`],
  ['percent-encoded characters', `data:image/png;base64,${encodeURIComponent(png64)}`],
  ['no padding', `data:image/png;base64,${png64.replace(/=+$/, '')}`],
]
for (const [what, uri] of uris)
  test(`staged: a data: URI with ${what}`, async t => {
    t.like((await stage([field(uri)])).image_url, { contentType: 'image/png', bytes: 400 })
  })

test('staged: an upload by its id, of the same organisation only', async t => {
  const { organisationId, live } = await gateway.account()
  const { id } = await upload(png(300), live)
  t.like((await stage([field(id)], organisationId)).image_url, { contentType: 'image/png', bytes: 300 })
  for (const one of [() => stage([field(id)]), () => stage([field(`${id}0`)], organisationId)])
    t.like(await t.throwsAsync(one), { code: 'url_not_allowed', param: 'image_url' })
})

test('sources: as an address, as a link or as base64', async t => {
  const image = png(300)
  const references = await stage([field(dataUri(image))])
  const source = sourcesOf(gateway.services, references).get('image_url')!
  t.like(source, { contentType: 'image/png', bytes: 300, durationS: null })
  t.is(await source.base64(), image.toString('base64'))
  t.true(Buffer.from(await (await fetch(await source.url())).arrayBuffer()).equals(image))
  t.is(await source.link(), dataUri(image, 'image/png'))
  const reachable = { ...gateway.services, config: { ...gateway.services.config, reachable: true } }
  t.true((await sourcesOf(reachable, references).get('image_url')!.link()).startsWith(gateway.url))
})

const measured: [
  what: string,
  file: () => Promise<Buffer> | Buffer,
  type: MediaType,
  seconds: number,
  contentType: string,
][] = [
  ['MP3', () => mp3(100), 'audio', 100 * mp3FrameS, 'audio/mpeg'],
  ['WAV', () => wav(1.5), 'audio', 1.5, 'audio/wav'],
  ['sound in WebM', () => movie('webm', { audioS: 2 }), 'audio', 2, 'audio/webm'],
  ['sound in MP4', () => movie('mp4', { audioS: 2 }), 'audio', 2, 'audio/mp4'],
  ['a QuickTime video', () => movie('mov', { videoS: 2 }), 'video', 2, 'video/quicktime'],
]
for (const [what, file, type, seconds, contentType] of measured) {
  test(`measured: ${what}`, async t => {
    const bytes = await file()
    const references = await stage([
      field(dataUri(bytes), type, true, 'by_data'),
      field(`\n${dataUri(bytes).replace(/.{76}/g, '$&\r\n')}`, type, true, 'by_data_in_lines'),
      field((await upload(bytes)).url, type, true, 'by_upload'),
    ])
    for (const reference of Object.values(references))
      t.like(reference, { durationS: Math.round(seconds * 1e6) / 1e6, contentType })
  })
}

const refused: [what: string, reference: () => Promise<ReferenceField> | ReferenceField, code: string][] = [
  ['text as an image', () => field(dataUri(Buffer.from('just text'))), 'unsupported_media_type'],
  ['a video as an image', async () => field(dataUri(await movie('mp4', { videoS: 1 }))), 'unsupported_media_type'],
  ['sound as a video', () => field(dataUri(mp3(10)), 'video'), 'unsupported_media_type'],
  [
    'a video as sound',
    async () => field(dataUri(await movie('webm', { videoS: 1 })), 'audio'),
    'unsupported_media_type',
  ],
  [
    'MP4 sound as a measured video',
    async () => field(dataUri(await movie('mp4', { audioS: 1 })), 'video', true),
    'unsupported_media_type',
  ],
  ['an upload of another type', async () => field((await upload(png())).url, 'video'), 'unsupported_media_type'],
  ['an image over 10 MiB', () => field(dataUri(png(10 * 1024 * 1024 + 1))), 'file_too_large'],
  [
    'an uploaded video as too long a sound',
    async () => field((await upload(mp4Of(21 * 1024 * 1024))).url, 'audio'),
    'file_too_large',
  ],
  [
    'a public sound over 20 MiB',
    () => field(serve('large.mp3', mp3Of(20 * 1024 * 1024 + 1)), 'audio'),
    'url_not_allowed',
  ],
  ['a video that cannot be read', () => field(dataUri(mp4Of(1_000)), 'video', true), 'invalid_request'],
  ['a sound without a length', () => field(dataUri(wav(0)), 'audio', true), 'invalid_request'],
  ['an empty file', () => field(serve('empty', Buffer.alloc(0))), 'invalid_request'],
  ['no bytes', () => field('data:image/png;base64,'), 'invalid_request'],
  ['a data: URI that is not base64', () => field('data:image/png,hello'), 'invalid_request'],
  ['broken base64', () => field(`data:image/png;base64,${png().toString('base64')}!`), 'invalid_request'],
  [
    'base64 with spaces',
    () => field(`data:image/png;base64,${png().toString('base64').slice(0, 8)} aaaa`),
    'invalid_request',
  ],
  ['a public file that is not there', () => field(`${world.url}nothing`), 'url_not_allowed'],
  ['no URL', () => field('nonsense'), 'url_not_allowed'],
]
for (const [what, reference, code] of refused) {
  test(`${code} naming the field for ${what}`, async t => {
    const { organisationId } = await gateway.account()
    const given = await reference()
    // An own upload lies with the account of all tests.
    const owner = given.url.startsWith(gateway.url) ? account.organisationId : organisationId
    const error = await t.throwsAsync(stage([given], owner))
    t.like(error, { code, param: given.field })
    t.is(await countFiles(organisationId), 0)
  })
}

test('url_not_allowed for another organisation’s upload, a forged address and a removed file', async t => {
  const other = await gateway.account()
  const { id, url } = await upload(png())
  await t.throwsAsync(stage([field(url)], other.organisationId), { message: /no such file/ })
  await t.throwsAsync(stage([field(url.replace(/signature=..../, 'signature=AAAA'))]), {
    message: /expired or was changed/,
  })
  await gateway.services.files.remove([{ fileId: id, storageKey: new URL(url).pathname.slice('/files/'.length) }])
  t.like(await t.throwsAsync(stage([field(url)])), { code: 'url_not_allowed', param: 'image_url' })
})

test('removed: what was copied, when one of several references is refused', async t => {
  const { organisationId, live } = await gateway.account()
  const { url } = await upload(png(), live)
  const good = Array.from({ length: 6 }, (_, i) =>
    field(dataUri(png(1000 + i)), 'image', false, `input_references.${i}`),
  )
  const bad = field(serve('text', Buffer.from('nothing to see')), 'image', false, 'input_references.9')
  const error = await t.throwsAsync(stage([field(url), ...good, bad], organisationId))
  t.like(error, { code: 'unsupported_media_type', param: 'input_references.9' })
  // The upload is the caller's own and stays.
  t.is(await countFiles(organisationId), 1)
  const folder = gateway.services.config.storageUrl.slice('file:'.length)
  const left = (await readdir(folder, { recursive: true })).filter(
    name => name.includes(organisationId) && name.endsWith('.png'),
  )
  t.deepEqual(
    left.map(name => name.split('/')[0]),
    ['uploads'],
  )
})

test.serial('unsupported_media_type though the copy cannot be removed: it stays until it expires', async t => {
  const { organisationId } = await gateway.account()
  const run = (sql: string) => gateway.services.db.$executeRawUnsafe(sql)
  await run(`CREATE FUNCTION keep_file() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'no space left on device'; END $$`)
  await run(`CREATE TRIGGER keep_file BEFORE UPDATE OR DELETE ON files FOR EACH ROW
    WHEN (OLD.organisation_id = '${organisationId}') EXECUTE FUNCTION keep_file()`)
  t.teardown(() => run('DROP TRIGGER keep_file ON files'))
  const error = await t.throwsAsync(stage([field(dataUri(Buffer.from('just text')))], organisationId))
  t.like(error, { code: 'unsupported_media_type', param: 'image_url' })
})

test.serial('staged: at most four at a time', async t => {
  const url = serve('image.png', png())
  maxAtOnce = 0
  await stage(Array.from({ length: 20 }, (_, i) => field(url, 'image', false, `input_references.${i}`)))
  t.true(maxAtOnce >= 1 && maxAtOnce <= 4, `${maxAtOnce} at once`)
})

test('url_not_allowed for every forbidden URL, naming the field; nothing is stored and nothing inside contacted', async t => {
  const { organisationId } = await gateway.account()
  for (const { name, url } of world.forbidden) {
    const error = await t.throwsAsync(
      stage([field(url, 'image', false, 'start_image_url')], organisationId),
      undefined,
      name,
    )
    t.like(error, { code: 'url_not_allowed', status: 400, param: 'start_image_url' }, name)
  }
  t.is(await countFiles(organisationId), 0)
  t.is(world.contacts(), 0)
})

test('400 url_not_allowed through the door of the service', async t => {
  const { organisationId, test: key } = await gateway.account()
  for (const { name, url } of world.forbidden) {
    const response = await gateway.fetch('/v1/videos', { key, body: { prompt: 'a wave', start_image_url: url } })
    t.is(response.status, 400, name)
    t.like(await response.json(), { error: { code: 'url_not_allowed', param: 'start_image_url' } }, name)
  }
  t.is(await countFiles(organisationId), 0)
  t.is(world.contacts(), 0)
})
