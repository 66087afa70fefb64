// Input and output logging, with real storage and sandbox answers: off, nothing of a request is anywhere.
import { readdir, readFile } from 'node:fs/promises'
import { join as joinPath } from 'node:path'
import { WebSocket } from 'undici'
import type { ContentSettings, RequestContent } from '../../api/dashboard/wire/contents.ts'
import type { DashboardKey } from '../../api/dashboard/wire/keys.ts'
import type { RequestDetail } from '../../api/dashboard/wire/requests.ts'
import { newId } from '../../shared/base/ids.ts'
import { dayMs } from '../../shared/base/time.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { runMaintenance } from '../../workers/maintenance.ts'
import { errorCode, join, signUp } from '../support/dashboard/dashboard.ts'
import { eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

let offsetMs = 0
const now = () => Date.now() + offsetMs

const gateway = useGateway(test, { ENCRYPTION_KEY: 'an operator’s key '.repeat(3) }, { clock: { now } })
const owner = use(test, () => signUp(gateway))

const until = () => new Date(now() + dayMs).toISOString()
const all = () => ({ mode: 'all', until: until() })

/** A test key that logs what `setting` says. */
async function keyWith(setting: object | null): Promise<string> {
  const key = await gateway.key(owner.organisationId, 'test')
  await set(key, setting)
  return key
}

const pathOf = (key: string) => `${owner.base}/keys/${hashSecret(key)}/content-logging`
const set = (key: string, setting: object | null) =>
  owner.visitor.json<{ data: DashboardKey }>(pathOf(key), { method: 'PATCH', body: { content_logging: setting } })

/** Calls a route and waits until what is to be logged is stored; returns the id of the request. */
async function ask(key: string, path: string, body: unknown, headers: Record<string, string> = {}) {
  const answer = await gateway.fetch(path, { key, body, headers })
  const text = await answer.text()
  await gateway.services.contentLog.flush()
  return { id: answer.headers.get('x-generation-id'), requestId: answer.headers.get('x-request-id')!, text }
}

const contentOf = (id: string | null) => owner.visitor.json<RequestContent>(`${owner.base}/requests/${id}/content`)
const hasContent = async (id: string | null) =>
  (await gateway.services.db.requestContent.count({ where: { id: id ?? '' } })) === 1

async function detailOf(id: string | null): Promise<RequestDetail> {
  const { db } = gateway.services
  await eventually(async () => (await db.generation.count({ where: { id: id! } })) === 1, 'the request is logged')
  return owner.visitor.json<RequestDetail>(`${owner.base}/requests/${id}`)
}

const chat = '/v1/chat/completions'
const say = (content: string, more: object = {}) => ({
  model: 'gpt-5',
  messages: [{ role: 'user', content }],
  ...more,
})

/** Everything that the gateway keeps: its storage, every table, every value of Redis. */
async function everythingStored(): Promise<string> {
  const { config, db, redis } = gateway.services
  const folder = config.storageUrl.replace(/^file:/, '')
  const names = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = names.filter(entry => entry.isFile()).map(entry => readFile(joinPath(entry.parentPath, entry.name)))
  const tables = await db.$queryRaw<{ name: string }[]>`
    SELECT quote_ident(tablename) AS name FROM pg_tables WHERE schemaname = current_schema()`
  const rows = tables.map(({ name }) =>
    db.$queryRawUnsafe<{ rows: string }[]>(`SELECT ${name}::text AS rows FROM ${name}`),
  )
  const values = (await redis.keys('*')).map(key => redis.dump(key))
  const parts = [...(await Promise.all(files)), ...(await Promise.all(values)), JSON.stringify(await Promise.all(rows))]
  return parts.map(part => part?.toString('latin1' as never)).join('\n')
}

test.serial('nothing of a prompt is stored while logging is off, and only sealed while it is on', async t => {
  const mark = newId('req')
  const key = await keyWith(null)
  const { id, requestId } = await ask(key, chat, say(mark))
  const failed = await ask(key, chat, say(`sandbox:fail ${mark}`))
  const refused = await ask(key, chat, { ...say(mark), temperature: 9 })
  await gateway.settled()
  await gateway.services.refusalLog.flush()
  t.is((await detailOf(id)).content, null)
  t.false((await everythingStored()).includes(mark))
  for (const none of [id, failed.id, refused.id, requestId])
    t.is((await owner.visitor.fetch(`${owner.base}/requests/${none}/content`)).status, 404)

  await set(key, all())
  const logged = await ask(key, chat, say(mark))
  await gateway.settled()
  t.true((await contentOf(logged.id)).input.includes(mark))
  t.false((await everythingStored()).includes(mark))
})

test.serial('the input and output of every kind of text, whole and streamed, is logged', async t => {
  const key = await keyWith(all())
  const messages = [{ role: 'user', content: 'Whole' }]
  const cases: [path: string, body: object][] = [
    [chat, say('Whole')],
    ['/v1/messages', { model: 'claude-haiku-4-5', max_tokens: 50, messages }],
    ['/v1/responses', { model: 'gpt-5', input: 'Whole' }],
    ['/v1/completions', { model: 'gpt-4o-mini', prompt: 'Whole' }],
    ['/v1/embeddings', { model: 'text-embedding-3-small', input: 'Whole' }],
  ]
  for (const [path, body] of cases) {
    const { id, text } = await ask(key, path, body)
    const content = await contentOf(id)
    t.deepEqual(JSON.parse(content.input), body, path)
    t.deepEqual(JSON.parse(content.output!), JSON.parse(text), path)
    const { content: facts } = await detailOf(id)
    t.is(facts!.input_bytes, JSON.stringify(body).length)
    t.false(facts!.deleted || facts!.input_truncated || facts!.output_truncated)
    if (path === '/v1/embeddings') continue
    const streamed = await ask(key, path, { ...body, stream: true })
    const joined = JSON.parse((await contentOf(streamed.id)).output!)
    t.deepEqual(wordsOf(joined), wordsOf(JSON.parse(text)), `${path} streamed`)
  }
})

/** The text of an answer of any format. */
// biome-ignore lint/suspicious/noExplicitAny: answers of every format
function wordsOf(answer: any): unknown {
  const { choices, content, output } = answer
  if (choices) return choices[0].text ?? choices[0].message.content
  return (content ?? output[output.length - 1].content)[0].text
}

test.serial('a turn on a WebSocket is logged', async t => {
  const key = await keyWith(all())
  const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}/v1/responses`, {
    headers: { authorization: `Bearer ${key}` },
  })
  const { promise, resolve } = Promise.withResolvers<string>()
  socket.addEventListener('open', () =>
    socket.send(JSON.stringify({ type: 'response.create', model: 'gpt-5', input: 'Over a socket' })),
  )
  socket.addEventListener('message', ({ data }) => {
    const event = JSON.parse(String(data))
    if (event.type === 'response.completed') resolve(event.response.id)
  })
  const id = await promise
  socket.close()
  await eventually(() => hasContent(id), 'the turn is logged')
  const content = await contentOf(id)
  t.is(JSON.parse(content.input).input, 'Over a socket')
  t.is(JSON.parse(content.output!).status, 'completed')
})

test.serial('errors are logged by every mode, with the refused ones; successes only by the others', async t => {
  const key = await keyWith({ mode: 'errors', until: until() })
  const fine = await ask(key, chat, say('Fine'))
  const failed = await ask(key, chat, say('sandbox:fail'))
  t.false(await hasContent(fine.id))
  t.true((await contentOf(failed.id)).output!.includes('"error"'))
  const refused = await ask(key, chat, say('Refused', { temperature: 'hot' }))
  await gateway.services.refusalLog.flush()
  const { id, content } = await owner.visitor.json<RequestDetail>(`${owner.base}/requests/${refused.requestId}`)
  t.truthy(content)
  t.true((await contentOf(id)).input.includes('hot'))
})

test.serial('the input of media is logged without its files, and no output', async t => {
  const key = await keyWith(all())
  const image = `data:image/png;base64,${'A'.repeat(5_000)}`
  const body = { model: 'gpt-image-1.5', prompt: 'A heron', input_references: [image] }
  const { requestId } = await ask(key, '/v1/images', body)
  await gateway.services.refusalLog.flush()
  const { id: broken } = await owner.visitor.json<RequestDetail>(`${owner.base}/requests/${requestId}`)
  t.deepEqual(JSON.parse((await contentOf(broken)).input).input_references, ['[file removed]'])
  const { id: made } = await ask(key, '/v1/images', { model: 'gpt-image-1.5', prompt: 'A heron' })
  const content = await contentOf(made)
  t.is(JSON.parse(content.input).prompt, 'A heron')
  t.is(content.output, null)
})

test.serial('secrets are removed always, email addresses if the organisation says so', async t => {
  const { visitor, base } = owner
  const key = await keyWith(all())
  const secret = `sk-proj-${'a1B2'.repeat(10)}`
  const told = `My key is ${secret}, my mail ada@example.com. -----BEGIN RSA PRIVATE KEY-----abc-----END RSA PRIVATE KEY-----`
  const first = await ask(key, chat, say(told))
  const { input } = await contentOf(first.id)
  t.is(
    JSON.parse(input).messages[0].content,
    'My key is [secret removed], my mail ada@example.com. [private key removed]',
  )
  await visitor.json(`${base}/content-settings`, { method: 'PATCH', body: { redact_emails: true } })
  const second = await ask(key, chat, say(told))
  t.false((await contentOf(second.id)).input.includes('ada@example.com'))
  t.true((await detailOf(second.id)).content!.redactions >= 3)
  await visitor.json(`${base}/content-settings`, { method: 'PATCH', body: { redact_emails: false } })
})

test.serial('secrets are removed at the start of a line, after a tab, and in the arguments of tools', async t => {
  const key = await keyWith(all())
  const secret = 'ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghij'
  const call = {
    id: 'call_1',
    type: 'function',
    function: { name: 'f', arguments: JSON.stringify({ a: `x\n${secret}` }) },
  }
  const messages = [
    { role: 'user', content: `Keys:\n${secret}\n\t${secret}\r${secret}` },
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'call_1', content: JSON.stringify({ password: 'hunter2' }) },
  ]
  for (const stream of [false, true]) {
    const { id } = await ask(key, chat, { model: 'gpt-5', messages, stream })
    const { input } = await contentOf(id)
    t.false(input.includes(secret.slice(-20)) || input.includes('hunter2'), input)
    t.is(JSON.parse(input).messages[0].content, 'Keys:\n[secret removed]\n\t[secret removed]\r[secret removed]')
    t.is(JSON.parse(JSON.parse(input).messages[1].tool_calls[0].function.arguments).a, 'x\n[secret removed]')
  }
})

test.serial('400 that quotes a secret is logged without it', async t => {
  const key = await keyWith(null)
  const secret = 'ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghij'
  const { requestId } = await ask(key, chat, say('Hello', { [secret]: { [secret]: 1 }, model: secret }))
  await gateway.services.refusalLog.flush()
  const { id } = await owner.visitor.json<RequestDetail>(`${owner.base}/requests/${requestId}`)
  const row = await gateway.services.db.generation.findFirstOrThrow({ where: { id } })
  t.false(JSON.stringify([row.errorMessage, row.errorParam]).includes(secret.slice(-20)))
})

test.serial('409 for a repeated request whose logged input and output were deleted', async t => {
  const key = await keyWith(all())
  const headers = { 'idempotency-key': 'deleted' }
  const { id } = await ask(key, chat, say('Forget it'), headers)
  await owner.visitor.json(`${owner.base}/requests/${id}/content`, { method: 'DELETE' })
  const { text } = await ask(key, chat, say('Forget it'), headers)
  t.is(JSON.parse(text).error.code, 'idempotency_key_reused')
})

test.serial('a large input and output is cut, and says so', async t => {
  const key = await keyWith(all())
  const { requestId } = await ask(key, chat, say('é'.repeat(800_000)))
  await gateway.services.refusalLog.flush()
  const { content } = await owner.visitor.json<RequestDetail>(`${owner.base}/requests/${requestId}`)
  t.true(content!.input_truncated)
  t.true(content!.input_bytes <= 1024 * 1024 + 3)
})

test.serial('off: logging after its time, and when it is switched off', async t => {
  const key = await keyWith(all())
  t.true(await hasContent((await ask(key, chat, say('On'))).id))
  await set(key, { mode: 'off' })
  t.false(await hasContent((await ask(key, chat, say('Off'))).id))
  await set(key, { mode: 'all', until: new Date(now() + 3_600_000).toISOString() })
  offsetMs += 2 * 3_600_000
  t.false(await hasContent((await ask(key, chat, say('Over'))).id))
})

test.serial('keys without a setting follow their organisation, from the next request on', async t => {
  const { visitor, base } = owner
  const follower = await gateway.key(owner.organisationId, 'test')
  const off = await keyWith({ mode: 'off' })
  await ask(follower, chat, say('Cached'))
  const setOrganisation = (setting: object | null) =>
    visitor.json<ContentSettings>(`${base}/content-settings`, { method: 'PATCH', body: { content_logging: setting } })
  t.like(await setOrganisation(all()), { content_logging: { mode: 'all' }, encrypted: true, retention_days: 7 })
  t.true(await hasContent((await ask(follower, chat, say('Followed'))).id))
  t.false(await hasContent((await ask(off, chat, say('Not followed'))).id))
  await setOrganisation(null)
  t.false(await hasContent((await ask(follower, chat, say('No more'))).id))
})

test.serial('400 for a setting without an end, one too far ahead, and one without its part', async t => {
  const { visitor } = owner
  const key = await keyWith(null)
  const faults: [setting: object, param: string][] = [
    [{ mode: 'all' }, 'until'],
    [{ mode: 'all', until: new Date(now() + 31 * dayMs).toISOString() }, 'until'],
    [{ mode: 'all', until: new Date(now() - 1).toISOString() }, 'until'],
    [{ mode: 'sample', until: until() }, 'sample_percent'],
    [{ mode: 'all', sample_percent: 5, until: until() }, 'sample_percent'],
    [{ mode: 'most', until: until() }, 'content_logging.mode'],
  ]
  for (const [setting, param] of faults) {
    const answer = await visitor.fetch(pathOf(key), { method: 'PATCH', body: { content_logging: setting } })
    t.is(answer.status, 400)
    t.is(((await answer.json()) as { error: { param: string } }).error.param, param)
  }
})

test.serial(
  'members see that there is content, administrators what it is, and the audit log says who looked',
  async t => {
    const { visitor: member, userId } = await signUp(gateway)
    await join(gateway, userId, owner.organisationId, 'member')
    const key = await keyWith(all())
    const { id } = await ask(key, chat, say('Confidential'))
    const path = `${owner.base}/requests/${id}/content`
    await detailOf(id)
    t.truthy((await member.json<RequestDetail>(`${owner.base}/requests/${id}`)).content)
    for (const method of ['GET', 'DELETE'])
      t.is(await errorCode(await member.fetch(path, { method })), 'insufficient_role', method)
    t.is(
      await errorCode(await member.fetch(pathOf(key), { method: 'PATCH', body: { content_logging: all() } })),
      'insufficient_role',
    )

    await contentOf(id)
    await owner.visitor.json(path, { method: 'DELETE' })
    t.is((await owner.visitor.fetch(path)).status, 404)
    t.true((await detailOf(id)).content!.deleted)
    const { db } = gateway.services
    const events = await db.auditEvent.findMany({ where: { targetId: id! }, orderBy: { createdAt: 'asc' } })
    t.deepEqual(
      events.map(({ action, actorId }) => [action, actorId]),
      [
        ['request_content.viewed', owner.userId],
        ['request_content.deleted', owner.userId],
      ],
    )
    const switched = await db.auditEvent.findFirstOrThrow({
      where: { action: 'key.updated' },
      orderBy: { createdAt: 'desc' },
    })
    t.like(switched.changes, { content_logging: [null, { mode: 'all' }] })
  },
)

test.serial('content counts in the storage quota, and is gone when it has expired', async t => {
  const { services } = gateway
  const key = await keyWith(all())
  const { organisationId } = owner
  const usage = () =>
    services.db.storageUsage.findUnique({
      where: { organisationId_environment: { organisationId, environment: 'test' } },
    })
  const before = await usage()
  const { id } = await ask(key, chat, say('For a week'))
  t.is((await usage())!.files, before!.files + 1n)
  offsetMs += 8 * dayMs
  t.is((await owner.visitor.fetch(`${owner.base}/requests/${id}/content`)).status, 404)
  await runMaintenance('expire', {}, services)
  t.is(await services.db.requestContent.count(), 0)
  t.is(await services.db.file.count({ where: { purpose: 'content' } }), 0)
})
