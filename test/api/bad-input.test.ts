import { once } from 'node:events'
import { connect } from 'node:net'
import type { ErrorBody, ErrorCode } from '../../shared/base/errors.ts'
import { startOpenAiEmulator } from '../emulators/openai.ts'
import { answersError, bodyPaths, provisioningKey, rawCall, validBodies } from '../support/api/edge.ts'
import { headOf } from '../support/io/raw-requests.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

let provisioning: string

const upstream = use(test, startOpenAiEmulator)
const gateway = useGateway(test, () => ({ OPENAI_API_KEY: 'sk-upstream', OPENAI_BASE_URL: `${upstream.url}/v1` }))
const account = use(test, () => gateway.account())
test.before(async () => {
  provisioning = await provisioningKey(gateway, account.organisationId)
})
test.afterEach.always('nothing stays reserved', async t => {
  if (!account) return
  t.deepEqual(await gateway.settled(), [])
  t.is((await gateway.services.wallets.view(account.organisationId)).reservedNano, 0n)
})

const keyFor = (path: string) => (path.startsWith('/api/') ? provisioning : account.live)

function send(path: string, body: string | Buffer, headers: Record<string, string> = {}): Promise<Response> {
  const authorization = `Bearer ${keyFor(path)}`
  const bytes = new Uint8Array(Buffer.from(body))
  const type = { 'content-type': 'application/json' }
  return fetch(gateway.url + path, { method: 'POST', headers: { authorization, ...type, ...headers }, body: bytes })
}

const chat = '/v1/chat/completions'
const hello = validBodies[chat]

test.serial('400 invalid_json on every route for bodies that are not well-formed JSON', async t => {
  const bodies: Record<string, string | Buffer> = {
    empty: '',
    blank: '  \n',
    'cut off': '{"model":"gpt-5.6-luna"',
    'single quotes': "{'model':'gpt-5.6-luna'}",
    'trailing text': '{} {}',
    'invalid UTF-8': Buffer.concat([Buffer.from('{"model":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')]),
    'raw surrogate': Buffer.concat([Buffer.from('{"model":"'), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')]),
    'raw NUL': '{"model":"a\0b"}',
    NaN: '{"max_tokens":NaN}',
    '200 levels': `{"x":${'['.repeat(200)}${']'.repeat(200)}}`,
    '100,000 levels': '['.repeat(100_000) + ']'.repeat(100_000),
    '100,000 levels, never closed': '{"a":'.repeat(100_000),
    'unbalanced brackets': `]]]]${'['.repeat(50_000)}`,
  }
  for (const path of bodyPaths) {
    for (const [name, body] of Object.entries(bodies)) {
      await answersError(t, await send(path, body), 'invalid_json', null, `${path}, ${name}`)
    }
  }
})

test.serial('400 invalid_json for a name behind escapes, which two readers may read in two ways', async t => {
  const message = '"messages":[{"role":"user","content":"Hi"}]'
  // What V8 13.6 has seen as a name it may find again in the escapes of another one.
  for (let i = 0; i < 5; i++) await (await send(chat, `{"model":"gpt-5.6-luna","\\\\u006":1,${message}}`)).text()
  const body = `{"model":"gpt-5.6-luna","\\u006dodel":"gpt-5.6",${message}}`
  // Where V8 is not confused, the name is found to be there twice.
  await answersError(t, await send(chat, body), 'invalid_json')
  // Escapes that clients do write: of other alphabets, and where JSON asks for them.
  const metadata = '"metadata":{"gr\\u00f6\\u00dfe":"1","a\\/b":"2","q\\"":"3"}'
  t.is((await send(chat, `{"model":"gpt-5.6-luna",${metadata},${message}}`)).status, 200)
})

test.serial('400 invalid_json names a field that an object has twice', async t => {
  const twice: [string, string][] = [
    ['{"model":"gpt-5.6-luna","messages":[{"role":"user","content":"x"}],"max_tokens":9,"max_tokens":1}', 'max_tokens'],
    ['{"model":"gpt-5.6-luna","mod\\u0065l":"o3","messages":[]}', 'model'],
    ['{"model":"gpt-5.6-luna","messages":[{"role":"user","content":"{\\"a\\":1}","content":"y"}]}', 'content'],
    ['{"__proto__":1,"__proto__":2}', '__proto__'],
  ]
  for (const [body, param] of twice) await answersError(t, await send(chat, body), 'invalid_json', param, body)
  const once =
    '{"model":"gpt-5.6-luna","messages":[{"role":"user","content":"\\"a\\":1,\\"a\\":2 {[:"}],"stop":["a:b","a:b"]}'
  t.is((await send(chat, once)).status, 200)
})

test.serial('400 invalid_request where the body is JSON but no object', async t => {
  for (const path of bodyPaths) {
    for (const body of ['[]', 'null', '7', '"text"', 'true', '[{}]']) {
      await answersError(t, await send(path, body), 'invalid_request', null, `${path}, ${body}`)
    }
  }
})

test.serial('400 invalid_request for an escaped lone surrogate, 200 for a pair', async t => {
  const body = (text: string) => `{"model":"gpt-5.6-luna","messages":[{"role":"user","content":"${text}"}]}`
  for (const lone of ['\\ud83d', '\\uDE00', 'a\\uD83Db', '\\ude00\\ud83d']) {
    await answersError(t, await send(chat, body(lone)), 'invalid_request', 'messages.0.content', lone)
  }
  await answersError(t, await send(chat, '{"a":{"\\ud83d":1}}'), 'invalid_request', 'a')
  t.is((await send(chat, body('\\ud83d\\ude00'))).status, 200)
})

test.serial('415 for another content type or encoding', async t => {
  const headers: Record<string, string>[] = [
    { 'content-type': 'text/plain' },
    { 'content-type': 'application/x-www-form-urlencoded' },
    { 'content-type': 'multipart/form-data; boundary=x' },
    { 'content-type': 'application/jsonx' },
    { 'content-encoding': 'compress' },
    { 'content-encoding': 'gzip, dcb' },
  ]
  for (const path of bodyPaths) {
    for (const header of headers) {
      const response = await send(path, JSON.stringify(validBodies[path]), header)
      await answersError(t, response, 'unsupported_media_type', null, `${path}, ${JSON.stringify(header)}`)
    }
  }
  const utf8 = { 'content-type': 'Application/JSON; charset=utf-8', 'content-encoding': 'identity' }
  t.is((await send(chat, JSON.stringify(hello), utf8)).status, 200)
})

test.serial('413 for a body over 10 MiB, announced or not; the server lives on', async t => {
  const mebibyte = Buffer.alloc(1024 * 1024, 0x20)
  const headers = { authorization: `Bearer ${account.live}`, 'content-type': 'application/json' }
  const announced = await rawCall(gateway.url, {
    method: 'POST',
    path: chat,
    headers,
    body: Buffer.alloc(11 * 1024 * 1024, 0x20),
  })
  const chunked = await rawCall(gateway.url, { method: 'POST', path: chat, headers, body: Array(11).fill(mebibyte) })
  for (const { status, body, headers } of [announced, chunked]) {
    t.is(status, 413, body)
    t.is(JSON.parse(body).error.code, 'request_too_large')
    t.is(headers.connection, 'close')
  }
  const padded = `${JSON.stringify(hello)}${' '.repeat(10 * 1024 * 1024 - JSON.stringify(hello).length)}`
  const fits = await send('/v1/route', padded)
  t.is(fits.status, 400) // Allowed in size; its estimate of tokens is too long for the model.
  t.is(((await fits.json()) as { error: { code: string } }).error.code, 'context_length_exceeded')
  t.is((await send(chat, JSON.stringify(hello))).status, 200)
})

test.serial('413 that a client reads which is still writing: its connection is not reset', async t => {
  const size = 12 * 1024 * 1024
  const announced = headOf(chat, account.live, { 'content-type': 'application/json', 'content-length': size })
  const { hostname, port } = new URL(gateway.url)
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
  let answer = ''
  const answered = new Promise<void>(resolve => {
    socket.on('data', part => {
      answer += part
      if (answer.includes('request_too_large')) resolve()
    })
  })
  const ended = once(socket, 'end')
  socket.write(announced)
  await answered
  // Each write arrives before the next: a connection that was closed resets it.
  for (let sent = 0; sent < size; sent += 1024 * 1024)
    await new Promise<void>((resolve, reject) =>
      socket.write(Buffer.alloc(1024 * 1024, 0x20), error => (error ? reject(error) : resolve())),
    )
  await ended
  socket.destroy()
  t.regex(answer, /^HTTP\/1\.1 413 /)
  t.regex(answer, /^connection: close\r$/im)
})

test.serial('413 and a closed connection for a client that never stops sending', async t => {
  const headers = { authorization: `Bearer ${account.live}`, 'content-type': 'application/json' }
  const mebibyte = Buffer.alloc(1024 * 1024, 0x20)
  const answer = await rawCall(gateway.url, {
    method: 'POST',
    path: chat,
    headers,
    body: Array(80).fill(mebibyte),
  }).catch(
    () => null, // The connection may be cut before the answer is read.
  )
  if (answer) t.is(answer.status, 413)
  t.is((await send(chat, JSON.stringify(hello))).status, 200)
})

test.serial('a client that disconnects in the middle of its body does not affect others', async t => {
  const { port, hostname } = new URL(gateway.url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  const head = `POST ${chat} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${account.live}\r\ncontent-type: application/json`
  await new Promise(resolve => socket.write(`${head}\r\ncontent-length: 100\r\n\r\n{"model":`, resolve))
  socket.resetAndDestroy()
  t.is((await send(chat, JSON.stringify(hello))).status, 200)
})

test.serial('200 for 16,384 messages, 400 for one more', async t => {
  const body = (count: number) => ({
    model: 'gpt-5.6-luna',
    messages: Array(count).fill({ role: 'user', content: '' }),
  })
  await answersError(t, await send(chat, JSON.stringify(body(16_385))), 'invalid_request', 'messages')
  t.is((await gateway.fetch(chat, { key: account.test, body: body(16_384) })).status, 200)
})

test.serial('200 with a byte order mark before the body, and with two slashes in the path', async t => {
  const marked = Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from(JSON.stringify(hello))])
  t.is((await send(chat, marked)).status, 200)
  for (const path of [`/${chat}`, chat.replace('/chat', '//chat'), '//v1//chat/completions?beta=true']) {
    // Not resolved against the address: that would take the first segment for a host.
    const { status } = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${account.live}`, 'content-type': 'application/json' },
      body: JSON.stringify(hello),
    })
    t.is(status, 200, path)
  }
  t.is((await fetch(`${gateway.url}//v1/models?x=https://a//b`)).status, 401)
})

test.serial('404 model_not_found for names that no model has', async t => {
  const names = [
    'nope',
    'gpt-5.6-luna ',
    '__proto__',
    'constructor',
    'a\u0000b',
    '../..',
    'text-embedding-3-small',
    '🦊',
  ]
  for (const model of names) {
    await answersError(t, await send(chat, JSON.stringify({ ...hello, model })), 'model_not_found', 'model', model)
  }
  for (const path of ['/v1/completions', '/v1/embeddings', '/v1/route'] as const) {
    const response = await send(path, JSON.stringify({ ...validBodies[path], model: 'nope' }))
    await answersError(t, response, 'model_not_found', 'model', path)
  }
})

test.serial('200 with unknown fields of chat-shaped routes left out and named', async t => {
  const extra = { x_vendor: { deep: [1, null, 'text'] }, constructor: { a: 1 }, toString: 5 }
  upstream.reset()
  const answer = await send(chat, JSON.stringify({ ...hello, ...extra }))
  t.is(answer.status, 200)
  t.regex(answer.headers.get('x-gateway-dropped')!, /\bx_vendor\b/)
  t.is(upstream.requests[0]!.body.x_vendor, undefined)
})

test.serial('400 unknown_field for a member that no check would see, wherever it is', async t => {
  upstream.reset()
  const hidden = '"__proto__":{"polluted":true,"type":"image_url","image_url":{"url":"https://a.test/a.png"}}'
  for (const path of bodyPaths) {
    const text = JSON.stringify(validBodies[path]).replace('{', `{${hidden},`)
    await answersError(t, await send(path, text), 'unknown_field', '__proto__', path)
  }
  const message = `{"role":"user","content":"Hi",${hidden}}`
  const part = `{"role":"user","content":[{"type":"text","text":"Hi",${hidden}}]}`
  for (const [turn, field] of [
    [message, 'messages.0.__proto__'],
    [part, 'messages.0.content.0.__proto__'],
  ] as const) {
    const { messages: _, ...others } = hello
    const text = JSON.stringify(others).replace(/\}$/, `,"messages":[${turn}]}`)
    await answersError(t, await send(chat, text), 'unknown_field', field, field)
  }
  t.is(upstream.requests.length, 0)
  t.is(({} as { polluted?: boolean }).polluted, undefined)
  // A name within a schema is one that the provider reads.
  const schema = '{"type":"object","properties":{"__proto__":{"type":"string"}}}'
  const tools = `,"tools":[{"type":"function","function":{"name":"f","parameters":${schema}}}]}`
  t.is((await send(chat, JSON.stringify(hello).replace(/\}$/, tools))).status, 200)
  t.true(upstream.requests[0]!.raw.toString().includes(schema))
})

test.serial('200 or 400 for fields that are null and have the names of what every object inherits', async t => {
  const inherited = ['toString', 'constructor', 'valueOf', 'hasOwnProperty', '__proto__']
  for (const path of bodyPaths)
    for (const name of inherited) {
      const text = JSON.stringify(validBodies[path]).replace('{', `{${JSON.stringify(name)}:null,`)
      const { status } = await send(path, text)
      t.true(status === 200 || status === 201 || status === 400, `${path} ${name}: ${status}`)
    }
})

test.serial('400 unknown_field with the field that is meant: misspelt, or as other APIs call it', async t => {
  const key = validBodies['/api/v1/keys'] as object
  const bodies: [string, object, RegExp][] = [
    ['/api/v1/keys', { ...key, rpm_limits: 1 }, /^Unknown field `rpm_limits`\. Did you mean `rpm_limit`\?$/],
    ['/api/v1/keys', { ...key, modelAllowlist: ['a'] }, /Did you mean `model_allowlist`\?$/],
    ['/v1/videos', { prompt: 'A door', duration: 5 }, /^Unknown field `duration`\. Did you mean `seconds`\?$/],
    [chat, { ...hello, provider: { onyl: ['openai'] } }, /^Unknown field `provider\.onyl`\. Did you mean `only`\?$/],
    ['/api/v1/keys', { ...key, colour: 1 }, /^Unknown field `colour`\.$/],
  ]
  for (const [path, body, message] of bodies) {
    const answer = await send(path, JSON.stringify(body))
    const { error } = (await answer.json()) as ErrorBody
    t.is(answer.status, 400)
    t.regex(error.message, message)
  }
})

test.serial('400 unknown_field on the gateway’s own routes and objects', async t => {
  const key = JSON.stringify(validBodies['/api/v1/keys']).slice(0, -1)
  const bodies: [string, string, string][] = [
    ['/api/v1/keys', `${key},"colour":1}`, 'colour'],
    ['/api/v1/keys', `${key},"__proto__":{"rpm_limit":1}}`, '__proto__'],
    ['/api/v1/keys', `${key},"constructor":1}`, 'constructor'],
    ['/api/v1/keys', `${key},"${'x'.repeat(100_000)}":1}`, 'x'.repeat(200)],
    [chat, JSON.stringify({ ...hello, provider: { colour: 1 } }), 'provider.colour'],
  ]
  for (const [path, body, param] of bodies) await answersError(t, await send(path, body), 'unknown_field', param)
  for (const path of ['/api/v1/keys?colour=1', '/v1/generation?id=x&colour=1']) {
    await answersError(t, await gateway.fetch(path, { key: keyFor(path) }), 'unknown_field', 'colour', path)
  }
})

test.serial('400 for NUL characters wherever text is stored or looked up, 200 in a prompt', async t => {
  const name = JSON.stringify({ name: 'a\u0000b' })
  await answersError(t, await send('/api/v1/keys', name), 'invalid_request', 'name')
  const list = JSON.stringify({ name: 'a', model_allowlist: ['a', '\u0000'] })
  await answersError(t, await send('/api/v1/keys', list), 'invalid_request', 'model_allowlist.1')
  const paths: [string, string][] = [
    ['/api/v1/keys/%00', 'hash'],
    ['/api/v1/keys?after=%00', 'after'],
    ['/v1/generation?id=a%00', 'id'],
  ]
  for (const [path, param] of paths)
    await answersError(t, await gateway.fetch(path, { key: keyFor(path) }), 'invalid_request', param, path)
  const prompt = { ...hello, messages: [{ role: 'user', content: 'a\u0000b' }] }
  t.is((await send(chat, JSON.stringify(prompt))).status, 200)
})

test.serial('400 or 404 for paths and queries that make no sense', async t => {
  const cases: [string, ErrorCode, string | null][] = [
    ['/v1/models?type=spaceship', 'invalid_request', 'type'],
    ['/v1/models?type=chat&type=image', 'invalid_request', 'type'],
    ['/v1/generation', 'missing_field', 'id'],
    ['/v1/generation?id=', 'invalid_request', 'id'],
    [`/v1/generation?id=${'x'.repeat(201)}`, 'invalid_request', 'id'],
    ['/api/v1/keys?limit=0', 'invalid_request', 'limit'],
    ['/api/v1/keys?limit=101', 'invalid_request', 'limit'],
    ['/api/v1/keys?limit=ten', 'invalid_request', 'limit'],
    ['/api/v1/keys?after=nope', 'not_found', null],
    ['/api/v1/keys?include_revoked=maybe', 'invalid_request', 'include_revoked'],
    ['/api/v1/keys/nope', 'not_found', null],
    ['/api/v1/keys/%ff', 'not_found', null],
    ['/v1/%2e%2e/%c0', 'not_found', null],
  ]
  for (const [path, code, param] of cases)
    await answersError(t, await gateway.fetch(path, { key: keyFor(path) }), code, param, path)
})
