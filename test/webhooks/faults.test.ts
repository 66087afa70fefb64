import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../dev/ports.ts'
import type { UrlPolicy } from '../../shared/io/safe-url.ts'
import { WebhookDeliveries } from '../../workers/webhooks/deliveries.ts'
import { eventually } from '../support/gateway.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useFolder, useStores } from '../support/use.ts'
import { type Answer, hang, hangUp, Receiver, signedBy, status } from '../support/webhooks/receiver.ts'
import { newDelivery, newOrganisation, StoppedClock, webhookServices } from '../support/webhooks/webhooks.ts'

const shortMs = 2_000
const clock = new StoppedClock()
let organisationId: string

const stores = useStores(test)
const folder = useFolder(test)
const services = use(test, () => webhookServices(stores, clock, { STORAGE_URL: `file:${folder}` }))
test.before(async () => {
  ;({ organisationId } = await newOrganisation(services))
})

async function receiverOf(t: ExecutionContext): Promise<Receiver> {
  const receiver = await Receiver.start()
  t.teardown(() => receiver.close())
  return receiver
}

function deliveriesThrough(
  t: ExecutionContext,
  urlPolicy: UrlPolicy = services.urlPolicy,
  timeoutMs?: number,
): WebhookDeliveries {
  const deliveries = new WebhookDeliveries({ ...services, urlPolicy }, timeoutMs === undefined ? {} : { timeoutMs })
  t.teardown(() => deliveries.close())
  return deliveries
}

/** Delivers to `url` once. Gives what became of it and the line in the log. */
async function attempt(url: string, deliveries: WebhookDeliveries) {
  const { id } = await newDelivery(services, organisationId, url)
  const outcome = await deliveries.attempt(id)
  const { log, ...row } = await services.webhooks.show(null, id)
  return { outcome, row, attempts: log.length, ...log[0]! }
}

test.serial('pending when nothing comes within the time-out', async t => {
  const receiver = await receiverOf(t)
  receiver.always = hang
  const { row, attempts, status, error, response } = await attempt(
    receiver.url,
    deliveriesThrough(t, services.urlPolicy, shortMs),
  )
  t.is(row.status, 'pending')
  t.is(receiver.received.length, 1)
  t.deepEqual(
    { attempts, status, error, response },
    { attempts: 1, status: null, error: 'no answer within 2 s', response: null },
  )
})

test.serial('pending when the connection is refused, reset, or is no HTTP; the log names the fault', async t => {
  const receiver = await receiverOf(t)
  const deliveries = deliveriesThrough(t)
  receiver.once(hangUp)
  const reset = await attempt(receiver.url, deliveries)
  t.is(reset.row.status, 'pending')
  t.regex(reset.error!, /^the connection failed: (ECONNRESET|UND_ERR_SOCKET)$/)
  const refused = await attempt(`http://127.0.0.1:${await freePort()}/`, deliveries)
  t.like(refused, { status: null, error: 'the connection failed: ECONNREFUSED' })
  receiver.once((_request, response) => void response.socket!.end('SSH-2.0-OpenSSH_9.2\r\n'))
  const alien = await attempt(receiver.url, deliveries)
  t.is(alien.row.status, 'pending')
  t.regex(alien.error!, /HTTP/)
  const tls = await attempt(receiver.url.replace('http:', 'https:'), deliveries)
  t.is(tls.row.status, 'pending')
  t.regex(tls.error!, /^the connection failed: /)
})

test.serial('delivered by its status although the body never ends', async t => {
  const receiver = await receiverOf(t)
  receiver.always = (_request, response) => response.writeHead(200).write('so far')
  const { row, status, error, response } = await attempt(
    receiver.url,
    deliveriesThrough(t, services.urlPolicy, shortMs),
  )
  t.deepEqual(
    { state: row.status, status, error, response },
    { state: 'delivered', status: 200, error: null, response: 'so far' },
  )
})

test.serial('delivered and cut off when the answer is megabytes: 1 kB of it is kept', async t => {
  const receiver = await receiverOf(t)
  let written = 0
  const flood: Answer = (_request, response) => {
    const part = 'x'.repeat(64 * 1_024)
    const more = () => {
      while (!response.destroyed) {
        written += part.length
        if (!response.write(part)) return void response.once('drain', more)
      }
    }
    response.writeHead(200)
    more()
  }
  receiver.once(flood)
  const { row, response } = await attempt(receiver.url, deliveriesThrough(t))
  t.is(row.status, 'delivered')
  t.is(response, 'x'.repeat(1_024))
  t.true(written < 64 * 1_024 * 1_024)
})

test.serial('kept without control characters, and as valid text, what a receiver answers', async t => {
  const receiver = await receiverOf(t)
  const bytes = Buffer.concat([Buffer.from('a\u0000b\u001b[31mc\r\n\td\u0085\u007f€'), Buffer.from([0xff, 0xc3])])
  receiver.once((_request, response) => void response.writeHead(500).end(bytes))
  const { row, response } = await attempt(receiver.url, deliveriesThrough(t))
  t.is(row.status, 'pending')
  t.is(response, 'ab[31mc\n\td€\ufffd\ufffd')
  const cut = `${'é'.repeat(511)}a😀`
  receiver.once(status(500, {}, cut))
  t.is((await attempt(receiver.url, deliveriesThrough(t))).response, `${'é'.repeat(511)}a\ufffd`)
})

test.serial('pending for URLs that may not be asked: an attempt like any other, and nothing is sent', async t => {
  const receiver = await receiverOf(t)
  const door: UrlPolicy = { allowPrivate: false, allowHttp: true }
  const deliveries = deliveriesThrough(t, door)
  const { port } = receiver
  const urls = [
    ...[receiver.url, `http://localhost:${port}/`, `http://2130706433:${port}/`, `http://0x7f.1:${port}/`],
    ...[`http://[::1]:${port}/`, `http://[::ffff:127.0.0.1]:${port}/`, 'http://169.254.169.254/latest/meta-data/'],
    ...[
      'http://10.0.0.1/',
      'http://user:hunter2@8.8.8.8/',
      'ftp://8.8.8.8/',
      'not a url',
      'http://no-such-host.invalid/',
    ],
  ]
  for (const url of urls) {
    const { row, attempts, status, error } = await attempt(url, deliveries)
    t.like(row, { status: 'pending', attempts: 1 }, url)
    t.deepEqual([attempts, status], [1, null], url)
    t.regex(error!, /^The URL /, url)
    t.false(error!.includes('hunter2'))
  }
  t.is(receiver.received.length, 0)
  t.is(receiver.sockets, 0)
})

test.serial('pending when a name points inside the next time, delivered where it was checked before', async t => {
  const receiver = await receiverOf(t)
  let addresses = ['127.0.0.1']
  const door: UrlPolicy = {
    allowPrivate: false,
    allowHttp: true,
    isPublic: address => address === '127.0.0.1',
    resolve: async () => addresses.map(address => ({ address, family: 4 })),
  }
  const deliveries = deliveriesThrough(t, door)
  // No resolver knows this name: only the pinned address can have been used.
  const url = `http://rebound.test:${receiver.port}/hook`
  t.is((await attempt(url, deliveries)).row.status, 'delivered')
  t.is(receiver.last().headers.host, `rebound.test:${receiver.port}`)
  for (const next of [['127.0.0.2'], ['127.0.0.1', '10.0.0.1'], ['::1'], []]) {
    addresses = next
    t.is((await attempt(url, deliveries)).row.status, 'pending', next.join())
  }
  t.is(receiver.received.length, 1)
})

test.serial('delivered at its new addresses after a name moved, over kept connections while it stays', async t => {
  const receiver = await receiverOf(t)
  let address = '127.0.0.1'
  const door: UrlPolicy = { allowPrivate: true, resolve: async () => [{ address, family: 4 }] }
  const deliveries = deliveriesThrough(t, door)
  const url = `http://moving.test:${receiver.port}/hook`
  for (let i = 0; i < 5; i++) t.is((await attempt(url, deliveries)).row.status, 'delivered')
  t.is(receiver.sockets, 1)
  address = '127.0.0.77' // No server listens there.
  t.is((await attempt(url, deliveries)).row.status, 'pending')
  t.is(receiver.sockets, 1)
})

test.serial('later, without an attempt, when many wait for one slow receiver; others go on', async t => {
  const [slow, quick] = await Promise.all([receiverOf(t), receiverOf(t)])
  const deliveries = deliveriesThrough(t)
  slow.once((_request, response) => {
    clock.pass(6_000)
    response.writeHead(200).end()
  })
  const first = await attempt(slow.url, deliveries)
  t.like(first, { status: 200, durationMs: 6_000 })
  const release: (() => void)[] = []
  slow.always = (_request, response) => void release.push(() => response.writeHead(200).end())
  const ids: string[] = []
  for (let i = 0; i < 25; i++) ids.push((await newDelivery(services, organisationId, slow.url)).id)
  const visits = ids.map(id => deliveries.attempt(id))
  await eventually(() => release.length === 10, 'ten are with the slow receiver')
  const other = await newOrganisation(services)
  const { id: elsewhere } = await newDelivery(services, other.organisationId, quick.url)
  t.is((await deliveries.attempt(elsewhere)).state, 'done')
  t.is(release.length, 10)
  for (const answer of release) answer()
  const outcomes = await Promise.all(visits)
  t.is(outcomes.filter(({ state }) => state === 'done').length, 10)
  const put = outcomes.flatMap((outcome, i) => (outcome.state === 'later' ? [ids[i]!] : []))
  t.is(put.length, 15)
  for (const id of put) t.like(await services.webhooks.show(null, id), { status: 'pending', attempts: 0, log: [] })
  clock.pass(61_000)
  slow.always = status(200)
  for (const { state } of await Promise.all(put.map(id => deliveries.attempt(id)))) t.is(state, 'done')
})

test.serial('later, without an attempt, under whatever names a slow receiver is called', async t => {
  const slow = await receiverOf(t)
  const { port } = new URL(slow.url)
  const resolve = async () => [{ address: '127.0.0.1', family: 4 }]
  const deliveries = deliveriesThrough(t, { ...services.urlPolicy, resolve })
  slow.once((_request, response) => {
    clock.pass(6_000)
    response.writeHead(200).end()
  })
  const { organisationId: own } = await newOrganisation(services)
  const named = async (i: number) => (await newDelivery(services, own, `http://name-${i}.example.com:${port}/`)).id
  t.is((await deliveries.attempt(await named(0))).state, 'done')
  const release: (() => void)[] = []
  slow.always = (_request, response) => void release.push(() => response.writeHead(200).end())
  const ids = await Promise.all(Array.from({ length: 25 }, (_, i) => named(i + 1)))
  const visits = ids.map(id => deliveries.attempt(id))
  await eventually(() => release.length === 10, 'ten are with the slow receiver')
  for (const answer of release) answer()
  const states = (await Promise.all(visits)).map(({ state }) => state)
  t.deepEqual(
    [states.filter(state => state === 'done').length, states.filter(state => state === 'later').length],
    [10, 15],
  )
  const { openStarts } = await services.db.webhookDelivery
    .aggregate({
      where: { organisationId: own, status: 'pending' },
      _sum: { openStarts: true },
    })
    .then(({ _sum }) => _sum)
  t.is(openStarts, 0, 'what found no place was not begun')
})

test.serial('failed: an event whose attempt three workers died of, delivered when it is sent again', async t => {
  const receiver = await receiverOf(t)
  const deliveries = deliveriesThrough(t)
  const { organisationId: own } = await newOrganisation(services)
  const { id } = await newDelivery(services, own, receiver.url)
  for (let death = 1; death <= 3; death++) {
    const [claim] = await services.webhooks.claim([id], 30_000)
    t.is(claim!.state, 'claimed')
    if (death > 1 && claim!.state === 'claimed') await services.webhooks.begin(claim!.delivery)
    clock.pass(31_000)
  }
  t.is((await deliveries.attempt(id)).state, 'done')
  t.is(receiver.received.length, 0)
  const { status, log } = await services.webhooks.show(null, id)
  t.is(status, 'failed')
  t.regex(log[0]!.error!, /failed 3 times/)
  await services.webhooks.redeliver(null, id)
  t.is((await deliveries.attempt(id)).state, 'done')
  t.is((await services.webhooks.show(null, id)).status, 'delivered')
})

test.serial('delivered once the storage is back: until then each attempt fails like any other', async t => {
  const receiver = await receiverOf(t)
  const deliveries = deliveriesThrough(t)
  const { id, jobId } = await newDelivery(services, organisationId, receiver.url)
  const file = { fileId: 'file-1', storageKey: 'results/answer.json', contentType: 'application/json', bytes: 10 }
  await services.db.job.update({ where: { id: jobId }, data: { kind: 'async', result: file } })
  const path = join(folder, file.storageKey)
  await mkdir(path, { recursive: true })
  for (let attempts = 1; attempts <= 4; attempts++) {
    const outcome = await deliveries.attempt(id)
    const { log, ...row } = await services.webhooks.show(null, id)
    t.like(row, { status: 'pending', attempts, openStarts: 0 })
    t.like(log.at(-1), { status: null, error: 'the gateway could not read the event', body: null })
    clock.pass(outcome.state === 'later' ? outcome.delayMs : t.fail())
  }
  t.is(receiver.received.length, 0)
  await rm(path, { recursive: true })
  await writeFile(path, '{"id":"a"}')
  t.is((await deliveries.attempt(id)).state, 'done')
  t.deepEqual(JSON.parse(receiver.last().body).data.result, { id: 'a' })
})

test.serial('delivered beside events that this process cannot sign, which wait for their key', async t => {
  const receiver = await receiverOf(t)
  const deliveries = deliveriesThrough(t)
  const { db } = services
  const other = await newOrganisation(services)
  const { webhookSecret } = await db.organisation.findUniqueOrThrow({ where: { id: other.organisationId } })
  const seal = (text: string | null) =>
    db.organisation.update({ where: { id: other.organisationId }, data: { webhookSecret: text } })
  await seal('sealed:1:00000000:AAAA')
  const [own, unsigned] = await Promise.all([
    newDelivery(services, organisationId, receiver.url),
    newDelivery(services, other.organisationId, receiver.url),
  ])
  const [delivered, later] = await Promise.all([deliveries.attempt(own.id), deliveries.attempt(unsigned.id)])
  t.is(delivered.state, 'done')
  t.is((await services.webhooks.show(null, own.id)).status, 'delivered')
  t.like(await services.webhooks.show(null, unsigned.id), { status: 'pending', attempts: 1, openStarts: 0 })
  await seal(webhookSecret)
  clock.pass(later.state === 'later' ? later.delayMs : t.fail())
  t.is((await deliveries.attempt(unsigned.id)).state, 'done')
  t.true(signedBy(receiver.last(), other.secret))
})
