import type { KeyRecord } from '../../shared/keys/keys.ts'
import { textureFile } from '../../shared/providers/sandbox/media/mesh-files.ts'
import { answersError, provisioningKey } from '../support/api/edge.ts'
import { chatLine, jsonLines } from '../support/batches/gateway.ts'
import { delayed } from '../support/delayed/jobs.ts'
import type { Account } from '../support/gateway.ts'
import { answerOf, image } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { useGateway } from '../support/use.ts'

let account: Account
const gateway = useGateway(test, {
  TEST_MAX_STORED_GB: '0.003',
  TEST_MAX_STORED_FILES: '8',
  TEST_MAX_UNFINISHED_JOBS: '3',
  TEST_MAX_UNFINISHED_BATCHES: '2',
  MAX_TEST_KEYS: '8',
  TEST_KEY_RPM: '40',
  TEST_KEY_TPM: '100000',
})
test.beforeEach(async () => {
  account = await gateway.account()
})

const model = 'gpt-5.6-luna'
const later = () => delayed('Hello', { model })
const chat = (content = 'Hello') => ({ model, messages: [{ role: 'user', content }], max_tokens: 5 })
const ask = (path: string, body: unknown, key = account.test, headers = {}) =>
  gateway.fetch(path, { key, body, headers })

async function upload(bytes: Uint8Array, key = account.test, path = '/v1/uploads', fields = {}): Promise<Response> {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.set(name, String(value))
  form.set('file', new Blob([new Uint8Array(bytes)]), 'file')
  return fetch(gateway.url + path, { method: 'POST', headers: { authorization: `Bearer ${key}` }, body: form })
}
const input = (bytes: number, key = account.test) =>
  upload(Buffer.from(`{${' '.repeat(bytes - 1)}`), key, '/v1/files', { purpose: 'batch' })

/** What is counted, beside what there is. */
async function usage() {
  const { organisationId } = account
  const where = { organisationId, environment: 'test' } as const
  const { db } = gateway.services
  const row = await db.storageUsage.findUnique({ where: { organisationId_environment: where } })
  const { _sum, _count } = await db.file.aggregate({ where, _sum: { bytes: true }, _count: true })
  const kept = await db.idempotencyKey.findMany({ where: { organisationId, key: { startsWith: 'test:' } } })
  const keptBytes = kept.reduce((sum, { body }) => sum + (body?.length ?? 0), 0)
  return {
    counted: [Number(row?.files ?? 0n), Number(row?.bytes ?? 0n)],
    found: [_count, Number(_sum.bytes ?? 0n) + keptBytes],
  }
}

test.serial(
  '403 once the files take up what they may; live keys have a quota of their own; deleting makes room',
  async t => {
    const stored = await Promise.all(Array.from({ length: 6 }, () => input(1_000_000)))
    const taken = stored.filter(({ status }) => status === 200)
    t.is(taken.length, 3, 'exactly as many as fit, however many come at once')
    for (const refused of stored.filter(({ status }) => status !== 200))
      await answersError(t, refused, 'quota_exceeded')
    const { counted, found } = await usage()
    t.deepEqual(
      [counted, found],
      [
        [3, 3_000_000],
        [3, 3_000_000],
      ],
    )
    await answersError(t, await upload(textureFile()), 'quota_exceeded')
    const faceSwap = { prompt: 'A lighthouse', start_image_url: image }
    await answersError(t, await ask('/v1/videos', faceSwap), 'quota_exceeded')
    await answersError(t, await ask('/v1/jobs', later()), 'quota_exceeded')
    t.is((await ask('/v1/chat/completions', chat())).status, 200)
    t.is((await input(1_000_000, account.live)).status, 200)
    const { id } = await answerOf(taken[0]!)
    t.is((await gateway.fetch(`/v1/files/${id}`, { key: account.test, method: 'DELETE' })).status, 200)
    t.deepEqual((await usage()).counted, [2, 2_000_000])
    t.is((await upload(textureFile())).status, 201)
  },
)

test.serial('403 for more files than there may be, however small', async t => {
  const stored = await Promise.all(Array.from({ length: 12 }, () => upload(textureFile())))
  t.is(stored.filter(({ status }) => status === 201).length, 8)
  t.deepEqual((await usage()).counted[0], 8)
  await answersError(t, await ask('/v1/jobs', later()), 'quota_exceeded')
})

test.serial('429 for more unfinished jobs and batches than there may be, exactly, at the same time', async t => {
  const jobs = await Promise.all(Array.from({ length: 8 }, () => ask('/v1/jobs', later())))
  t.deepEqual(jobs.map(({ status }) => status).sort(), [202, 202, 202, 429, 429, 429, 429, 429])
  const videos = await Promise.all(Array.from({ length: 5 }, () => ask('/v1/videos', { prompt: 'A lighthouse' })))
  t.deepEqual(videos.map(({ status }) => status).sort(), [202, 202, 202, 429, 429])
  const refused = jobs.find(({ status }) => status === 429)!
  t.is(refused.headers.get('retry-after'), '60')
  await answersError(t, refused, 'rate_limit_exceeded')
  const { id } = await answerOf(await input(2_000))
  const batch = { input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '24h' }
  const batches = await Promise.all(Array.from({ length: 5 }, () => ask('/v1/batches', batch)))
  t.deepEqual(batches.map(({ status }) => status).sort(), [200, 200, 429, 429, 429])
  const other = await gateway.account()
  t.is((await ask('/v1/jobs', later(), other.test)).status, 202)
})

test.serial(
  '200 again for a long answer, which is kept in storage; 409, never run twice, for one that has no room',
  async t => {
    const headers = { 'idempotency-key': 'long' }
    const embeddings = { model: 'text-embedding-3-large', input: Array(25).fill('x'), dimensions: 3_000 }
    const first = await ask('/v1/embeddings', embeddings, account.test, headers)
    const text = await first.text()
    t.is(first.status, 200, text)
    t.true(text.length > 1_048_576)
    const row = await gateway.services.db.idempotencyKey.findFirstOrThrow({
      where: { organisationId: account.organisationId },
    })
    t.is(row.body, null)
    const again = await ask('/v1/embeddings', embeddings, account.test, headers)
    t.is(again.headers.get('idempotent-replayed'), 'true')
    t.is(await again.text(), text)

    const short = { 'idempotency-key': 'short' }
    t.is((await ask('/v1/chat/completions', chat(), account.test, short)).status, 200)
    const { counted, found } = await usage()
    t.deepEqual(counted, found)

    while ((await input(400_000)).status === 200);
    const none = { 'idempotency-key': 'none' }
    t.is((await ask('/v1/embeddings', embeddings, account.test, none)).status, 200)
    const refused = await ask('/v1/embeddings', embeddings, account.test, none)
    t.is(refused.headers.get('x-should-retry'), 'false')
    await answersError(t, refused, 'idempotency_key_reused')
    await gateway.services.db.idempotencyKey.deleteMany({ where: { organisationId: account.organisationId } })
    const after = await usage()
    t.deepEqual(after.counted, after.found)
  },
)

test.serial(
  '403 for more active test keys than there may be; others, and what else of them changes, are not refused',
  async t => {
    const key = await provisioningKey(gateway, account.organisationId)
    const send = (method: string, path: string, body: object) =>
      gateway.fetch(`/api/v1/keys${path}`, { key, method, body })
    const create = () => send('POST', '', { environment: 'test' })
    const made: { data: KeyRecord }[] = []
    for (let active = 1; active < 8; active++) made.push(await answerOf(await create()))
    const [first, second] = made
    await answersError(t, await create(), 'quota_exceeded')
    const live = (await answerOf(await send('POST', '', { environment: 'live' }))) as { data: KeyRecord }
    for (const { data } of [first!, live])
      t.is((await send('PATCH', `/${data.hash}`, { name: 'Renamed', disabled: false })).status, 200)
    t.is((await send('PATCH', `/${first!.data.hash}`, { disabled: true })).status, 200)
    t.is((await create()).status, 201)
    await answersError(t, await send('PATCH', `/${first!.data.hash}`, { disabled: false }), 'quota_exceeded')
    await gateway.services.db.apiKey.update({ where: { hash: second!.data.hash }, data: { expiresAt: new Date(0) } })
    t.is((await send('PATCH', `/${first!.data.hash}`, { disabled: false })).status, 200)
    await answersError(t, await send('PATCH', `/${second!.data.hash}`, { expires_at: null }), 'quota_exceeded')
  },
)

test.serial('429 beyond the requests per minute that test keys have; their records show none of their own', async t => {
  const first = await ask('/v1/chat/completions', chat())
  t.is(first.headers.get('x-ratelimit-limit-requests'), '40')
  t.is(first.headers.get('x-ratelimit-limit-tokens'), '100000')
  const own = await gateway.key(account.organisationId, 'test', { rpm_limit: 7, tpm_limit: 200_000 })
  const ofOwn = await ask('/v1/chat/completions', chat(), own)
  t.is(ofOwn.headers.get('x-ratelimit-limit-requests'), '7')
  t.is(ofOwn.headers.get('x-ratelimit-limit-tokens'), '100000')
  const statuses = await Promise.all(
    Array.from({ length: 45 }, async () => (await ask('/v1/chat/completions', chat())).status),
  )
  t.is(statuses.filter(status => status === 200).length, 38)
  t.is(statuses.filter(status => status === 429).length, 7)
  const row = await gateway.services.db.apiKey.findFirstOrThrow({
    where: { organisationId: account.organisationId, environment: 'test', rpmLimit: null },
  })
  t.is(row.tpmLimit, null)
})

test.serial('429 beyond the requests per minute of all test keys together, however many there are', async t => {
  const { organisationId } = account
  const limits = [{}, {}, { rpm_limit: 12 }]
  const keys = await Promise.all(limits.map(limit => gateway.key(organisationId, 'test', limit)))
  const answers = await Promise.all(
    [account.test, ...keys].flatMap(key => Array.from({ length: 15 }, () => ask('/v1/chat/completions', chat(), key))),
  )
  t.is(answers.filter(({ status }) => status === 200).length, 40)
  const refused = await ask('/v1/chat/completions', chat())
  t.is(refused.headers.get('x-ratelimit-remaining-requests'), '0')
  t.true(Number(refused.headers.get('retry-after')) > 50)
  const { message } = await answersError(t, refused, 'rate_limit_exceeded')
  t.regex(message, /^All test keys of this organisation together are limited to 40 requests per minute/)
  const other = await gateway.account()
  t.is((await ask('/v1/chat/completions', chat(), other.test)).status, 200)
  t.is((await ask('/v1/chat/completions', chat(), account.live)).headers.get('x-ratelimit-limit-requests'), null)
})

test.serial('429 for the limits of a key that are lower than those of all together', async t => {
  const key = await gateway.key(account.organisationId, 'test', { rpm_limit: 3 })
  const answers = await Promise.all(Array.from({ length: 5 }, () => ask('/v1/chat/completions', chat(), key)))
  t.deepEqual(answers.map(({ status }) => status).sort(), [200, 200, 200, 429, 429])
  const refused = answers.find(({ status }) => status === 429)!
  t.regex((await answersError(t, refused, 'rate_limit_exceeded')).message, /^This key is limited to 3 requests/)
  t.is((await ask('/v1/chat/completions', chat())).headers.get('x-ratelimit-remaining-requests'), '36')
})

test.serial('tokens of all test keys together are corrected by what their requests used', async t => {
  const second = await gateway.key(account.organisationId, 'test')
  const big = (key: string) => ask('/v1/chat/completions', { ...chat(), max_tokens: 60_000 }, key)
  const first = await big(account.test)
  t.is(first.status, 200)
  t.true(Number(first.headers.get('x-ratelimit-remaining-tokens')) < 40_000)
  await first.text()
  await gateway.services.admission.flush()
  const next = await big(second)
  t.is(next.status, 200, 'the first used few of its 60,000')
  const remaining = Number(next.headers.get('x-ratelimit-remaining-tokens'))
  t.true(remaining > 39_000 && remaining < 40_000, String(remaining))
})

test.serial('counted: files in the input of a batch and what a batch leaves', async t => {
  const line = chatLine('a', model, 'Hello')
  const body = Buffer.from(jsonLines([line]))
  t.is((await upload(body, account.test, '/v1/files', { purpose: 'batch' })).status, 200)
  const { counted, found } = await usage()
  t.deepEqual(counted, found)
  t.deepEqual(counted, [1, body.length])
})
