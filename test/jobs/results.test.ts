import { storeResult } from '../../shared/jobs/results.ts'
import type { ProviderFile } from '../../shared/kinds/media.ts'
import { protocols } from '../../shared/providers/protocols.ts'
import { Emulator, type Reply, reset } from '../emulators/emulator.ts'
import { openSsrfWorld } from '../support/io/ssrf.ts'
import { connectionTo, secret } from '../support/jobs/queued-adapter.ts'
import { movie, mp3, mp3FrameS, png } from '../support/media/media-files.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

let organisationId: string
const replies = new Map<string, Reply>()
const authorizations: (string | undefined)[] = []

const world = use(test, openSsrfWorld)
const gateway = useGateway(test)
test.before(async () => {
  organisationId = (await gateway.account()).organisationId
  Object.assign(gateway.services.urlPolicy, world.door)
})
const provider = use(test, () =>
  Emulator.start((request, response) =>
    (replies.get(request.path) ?? ((_, answer) => void answer.writeHead(404).end()))(request, response),
  ),
)
const connection = use(test, () => connectionTo('openai', protocols.openai!, provider.url))
test.before(() => {
  world.respond = (request, response) => {
    authorizations.push(request.headers.authorization)
    void replies.get(request.url ?? '')?.(undefined as never, response)
  }
})

function bytes(body: Buffer | string, contentType = 'application/octet-stream', status = 200): Reply {
  return (_request, response) => void response.writeHead(status, { 'content-type': contentType }).end(body)
}
function redirect(location: string): Reply {
  return (_request, response) =>
    void response.writeHead(302, { location: Buffer.from(location).toString('latin1') }).end()
}
let jobs = 0
const store = (
  file: { url: string } | { bytes: Uint8Array; contentType: string },
  name = 'video',
  id = `job_${++jobs}`,
) =>
  storeResult(
    gateway.services,
    connection,
    { id, organisationId, environment: 'live' },
    { role: 'video', ...file } as ProviderFile,
    name,
    Date.now() + 3_600_000,
  )
const countFiles = () => gateway.services.db.file.count({ where: { organisationId } })

test('stored from the provider’s own origin, with its key, at any path', async t => {
  const film = await movie('mp4', { videoS: 2 })
  replies.set('/v1/videos/1/content', bytes(film, 'application/octet-stream'))
  replies.set('/elsewhere/film', bytes(film, 'video/mp4'))
  for (const path of ['/v1/videos/1/content?variant=video', '/elsewhere/film']) {
    const stored = await store({ url: provider.url + path })
    t.like(stored, { contentType: 'video/mp4', bytes: film.length, durationS: 2 })
    const request = provider.requests.find(found => path.startsWith(found.path))
    t.is(request?.headers.authorization, `Bearer ${secret}`)
    const row = await gateway.services.db.file.findUniqueOrThrow({ where: { id: stored.fileId } })
    t.like(row, { purpose: 'result', filename: 'video.mp4', organisationId })
  }
  t.is(provider.requests.find(({ path }) => path === '/v1/videos/1/content')?.query.get('variant'), 'video')
})

test.serial('stored: a result on another host is fetched through safe-url, without the API key', async t => {
  replies.set('/film.mp3', bytes(mp3(100), 'audio/mpeg'))
  authorizations.length = 0
  const stored = await store({ url: `${world.url}film.mp3` }, 'sound')
  t.is(stored.contentType, 'audio/mpeg')
  t.is(stored.durationS, Math.round(100 * mp3FrameS * 1e6) / 1e6)
  replies.set('/v1/leads-out', redirect(`${world.url}film.mp3`))
  t.is((await store({ url: `${provider.url}/v1/leads-out` })).contentType, 'audio/mpeg')
  t.deepEqual(authorizations, [undefined, undefined])
})

test.serial('stored from a server that names an encoding that encodes nothing', async t => {
  const film = await movie('mp4', { videoS: 2 })
  for (const encoding of ['', 'aws-chunked', 'utf-8, binary']) {
    const reply: Reply = (_request, response) =>
      void response.writeHead(200, { 'content-type': 'video/mp4', 'content-encoding': encoding }).end(film)
    replies.set('/encoded', reply)
    for (const url of [`${world.url}encoded`, `${provider.url}/encoded`])
      t.like(await store({ url }), { contentType: 'video/mp4', bytes: film.length }, encoding)
  }
})

test('stored by way of redirects within the provider', async t => {
  replies.set('/v1/first', redirect('/v1/second'))
  replies.set('/v1/second', redirect(`${provider.url}/v1/third`))
  replies.set('/v1/third', bytes(png(), 'image/png'))
  t.like(await store({ url: `${provider.url}/v1/first` }), { contentType: 'image/png', durationS: null })
  replies.set('/v1/circle', redirect('/v1/circle'))
  t.like(await t.throwsAsync(store({ url: `${provider.url}/v1/circle` })), { reason: 'invalid_response' })
})

test('stored: a file whose bytes are in the answer', async t => {
  const stored = await store({ bytes: png(500), contentType: 'application/octet-stream' }, 'preview')
  t.like(stored, { contentType: 'image/png', bytes: 500, durationS: null })
})

test('stored under the type that the provider states where the bytes show none, or only a ZIP file', async t => {
  const zip = Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), Buffer.alloc(200)])
  const types: [body: Buffer, stated: string, stored: string][] = [
    [Buffer.from('v 0 0 0\nv 1 0 0\nf 1 2 1\n'), 'model/obj', 'model/obj'],
    [zip, 'model/vnd.usdz+zip', 'model/vnd.usdz+zip'],
    [zip, 'application/octet-stream', 'application/zip'],
    [Buffer.from('glTF\x02\0\0\0'.padEnd(100, '\0'), 'latin1'), 'application/octet-stream', 'model/gltf-binary'],
    [Buffer.from([1, 2, 3, 4]), 'application/x-unheard-of', 'application/octet-stream'],
  ]
  for (const [body, contentType, expected] of types)
    t.is((await store({ bytes: body, contentType }, 'mesh')).contentType, expected, contentType)
})

test('stored with no length where it cannot be measured', async t => {
  const film = (await movie('mp4', { videoS: 2 })).subarray(0, 600)
  t.like(await store({ bytes: film, contentType: 'video/mp4' }), { contentType: 'video/mp4', durationS: null })
})

test('stored once: done again it replaces itself', async t => {
  const first = await store({ bytes: png(100), contentType: 'image/png' }, 'texture', 'job_again')
  const again = await store({ bytes: png(200), contentType: 'image/png' }, 'texture', 'job_again')
  t.is(again.fileId, first.fileId)
  t.not((await store({ bytes: png(100), contentType: 'image/png' }, 'other', 'job_again')).fileId, first.fileId)
  const row = await gateway.services.db.file.findUniqueOrThrow({ where: { id: first.fileId } })
  t.is(row.bytes, 200n)
})

const page = '<!DOCTYPE html>\n<html><body>Please log in</body></html>'
const failures: [what: string, reply: Reply, reason: string][] = [
  ['nothing', bytes('', 'video/mp4'), 'invalid_response'],
  ['a page', bytes(page, 'text/html; charset=utf-8'), 'invalid_response'],
  ['a page that says it is a video', bytes(page, 'video/mp4'), 'invalid_response'],
  ['a refusal', bytes('no', 'text/plain', 403), 'invalid_response'],
  ['a fault', bytes('later', 'text/plain', 503), 'server_error'],
  ['a broken connection', reset, 'connection'],
  [
    'a connection that breaks half-way',
    (_request, response) => {
      response.writeHead(200, { 'content-length': 1_000_000 }).write(png(500_000), () => response.destroy())
    },
    'connection',
  ],
]
for (const [what, reply, reason] of failures) {
  test.serial(`${reason} for ${what}; nothing is stored and the key is not told`, async t => {
    const before = await countFiles()
    replies.set('/v1/failing', reply)
    const error = await t.throwsAsync(store({ url: `${provider.url}/v1/failing` }))
    t.like(error, { name: 'ProviderError', reason })
    t.false(JSON.stringify([error?.message, error]).includes(secret))
    t.is(await countFiles(), before)
  })
}

test.serial('transient failures elsewhere may be tried again, others not', async t => {
  replies.set('/503', bytes('', 'text/plain', 503))
  replies.set('/404', bytes('', 'text/plain', 404))
  t.like(await t.throwsAsync(store({ url: `${world.url}503` })), { reason: 'connection' })
  t.like(await t.throwsAsync(store({ url: `${world.url}404` })), { reason: 'invalid_response' })
})

test.serial('invalid_response for every forbidden URL, and nothing inside is contacted', async t => {
  const before = await countFiles()
  for (const { name, url } of world.forbidden) {
    const error = await t.throwsAsync(store({ url }), undefined, name)
    t.is(error?.name, 'ProviderError', name)
    replies.set('/v1/leads-inside', redirect(url))
    await t.throwsAsync(store({ url: `${provider.url}/v1/leads-inside` }), undefined, `${name}, by redirect`)
  }
  t.is(world.contacts(), 0)
  t.is(await countFiles(), before)
})
