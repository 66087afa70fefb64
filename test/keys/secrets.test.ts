import { Redis } from 'ioredis'
import pg from 'pg'
import { failure, startOpenAiEmulator } from '../emulators/openai.ts'
import { call, eventually, startProcess } from '../support/gateway.ts'
import { dumpRedis } from '../support/io/leaks.ts'
import { operatorJson, spawnOperator, storesEnv } from '../support/operator.ts'
import { test } from '../support/test.ts'
import { useStores } from '../support/use.ts'

const upstreamSecret = 'sk-upstream-Qm93bGluZw0123456789abcdefghijkl'

const stores = useStores(test)

/** Every row of every table as text. */
async function databaseText(): Promise<string> {
  const client = new pg.Client({ connectionString: stores.databaseUrl })
  await client.connect()
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      `SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) AS name FROM pg_tables
       WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`,
    )
    const texts: string[] = []
    for (const { name } of tables) {
      const { rows } = await client.query<{ text: string }>(`SELECT to_jsonb(t)::text AS text FROM ${name} t`)
      // Bytes come as hexadecimal digits.
      for (const { text } of rows)
        texts.push(
          text,
          ...[...text.matchAll(/\\\\x([0-9a-f]+)/g)].map(([, hex]) => Buffer.from(hex!, 'hex').toString()),
        )
    }
    return texts.join('\n')
  } finally {
    await client.end()
  }
}

/** Every key and value of Redis as text. */
async function redisText(): Promise<string> {
  const redis = new Redis(stores.redisUrl)
  try {
    return await dumpRedis(redis)
  } finally {
    redis.disconnect()
  }
}

test('200 and failures alike leave no secret in Postgres, Redis, or the most talkative log', async t => {
  const upstream = await startOpenAiEmulator()
  const web = await startProcess('web', stores, {
    LOG_LEVEL: 'trace',
    OPENAI_API_KEY: upstreamSecret,
    OPENAI_BASE_URL: `${upstream.url}/v1`,
  })
  t.teardown(async () => {
    await web.kill()
    await upstream.close()
  })
  const { id: org } = await operatorJson<{ id: string }>(stores, 'org', 'create', '--name', 'Secretive')
  await operatorJson(stores, 'credit', 'add', '--org', org, '--usd', '5')
  const { key: provisioning } = await operatorJson<{ key: string }>(stores, 'provisioning-key', 'create', '--org', org)
  const { key: live, data } = await operatorJson<{ key: string; data: { hash: string } }>(
    stores,
    ...['key', 'create', '--org', org, '--env', 'live'],
  )
  const create = { key: provisioning, body: { environment: 'test' }, headers: { 'idempotency-key': 'once' } }
  const { key: made } = (await (await call(web.url, '/api/v1/keys', create)).json()) as { key: string }
  const retried = (await (await call(web.url, '/api/v1/keys', create)).json()) as { key: string }
  t.is(retried.key, made)
  const chat = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }] }
  const statuses: number[] = []
  const ask = async (key: string, body: unknown = chat, path = '/v1/chat/completions') => {
    const response = await call(web.url, path, { key, body })
    const text = await response.text()
    t.false(text.includes(upstreamSecret))
    statuses.push(response.status)
  }
  await ask(live)
  await ask(live, { ...chat, stream: true })
  // At Gemini's paths a key may be in the URL.
  const inUrl = async (path: string, body: unknown, key = live) => {
    const headers = { 'idempotency-key': `in-url ${path}` }
    const response = await call(web.url, `${path}${path.includes('?') ? '&' : '?'}key=${key}`, { body, headers })
    t.false((await response.text()).includes(key), path)
    return response.status
  }
  const contents = [{ role: 'user', parts: [{ text: 'Hello' }] }]
  const gemini = '/v1beta/models/gpt-4o-mini'
  t.is(await inUrl(`${gemini}:generateContent`, { contents }), 200)
  t.is(await inUrl(`${gemini}:streamGenerateContent?alt=sse`, { contents }), 200)
  t.is(await inUrl(`${gemini}:countTokens`, { contents }), 200)
  t.is(await inUrl(`${gemini}:generateContent?x=1`, {}), 400)
  t.is(await inUrl('/v1beta/models/nope:generateContent', { contents }), 404)
  t.is(await inUrl('/v1beta/cachedContents', {}), 404)
  t.is(await inUrl('/v1/chat/completions', chat), 401)
  await ask(made)
  const refusals = [
    failure(401, `Incorrect API key provided: ${upstreamSecret}.`, 'invalid_request_error', 'invalid_api_key'),
    failure(500, `Failed for ${upstreamSecret}`, 'server_error', null),
  ]
  for (const [i, refusal] of refusals.entries()) {
    upstream.next(refusal, refusal, refusal)
    await ask(live, { ...chat, stream: i === 1 })
    upstream.reset()
  }
  await ask(live, '{')
  await ask(`${live}x`)
  await ask(provisioning)
  await ask(made, undefined, '/api/v1/keys')
  const rolled = (await (
    await call(web.url, `/api/v1/keys/${data.hash}/roll`, { method: 'POST', key: provisioning })
  ).json()) as { key: string }
  await ask(live)
  await ask(rolled.key)
  await upstream.close()
  await ask(rolled.key)
  t.deepEqual(statuses, [200, 200, 200, 502, 502, 400, 401, 403, 403, 401, 200, 502])
  const log = () => web.output()
  await web.kill('SIGTERM')
  await eventually(() => log().includes('"stopped"'), 'the log is whole')
  const talk = await spawnOperator({ ...storesEnv(stores), LOG_LEVEL: 'trace' }, 'key', 'list', '--org', org)
  t.true(log().split('"msg":"request"').length > statuses.length, 'every request is in the log')
  const [database, redis] = [await databaseText(), await redisText()]
  t.true(database.includes(data.hash) && redis.length > 0)
  const places = { database, redis, log: log(), operator: talk.stdout + talk.stderr }
  for (const [place, text] of Object.entries(places)) {
    for (const secret of [live, made, rolled.key, provisioning, upstreamSecret]) {
      // The prefix and the last four characters are stored for display, what is between them never.
      const middle = secret.slice(16, -4)
      for (const form of [
        middle,
        Buffer.from(secret).toString('base64').slice(24, 48),
        Buffer.from(middle).toString('hex'),
      ])
        t.false(text.includes(form), `${place} has a secret of kind ${secret.slice(0, 12)}`)
    }
  }
})
