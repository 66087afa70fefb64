import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import type { ErrorCode } from '../../shared/base/errors.ts'
import { type BatchEndpoint, batchEndpoints, isBlank, parseRequest, readRequest } from '../../shared/batches/request.ts'
import { validateInput } from '../../shared/batches/validate.ts'
import { buildCatalog, loadCatalog } from '../../shared/catalog/catalog.ts'
import { validBodies } from '../support/api/edge.ts'
import { type ExecutionContext, test } from '../support/test.ts'

const chat = '/v1/chat/completions'
const shipped = loadCatalog()
const luna = shipped.find('gpt-5.6-luna')!
const catalog = buildCatalog(
  new Map([...shipped.models, ['gone', { ...luna, id: 'gone', disabled: true }]]),
  new Map(shipped.providers),
  shipped.retired,
)

const request = (customId: string, body: object = {}, envelope: object = {}) => ({
  custom_id: customId,
  method: 'POST',
  url: chat,
  body: { ...validBodies[chat], ...body },
  ...envelope,
})
const line = (...parts: Parameters<typeof request>) => JSON.stringify(request(...parts))

/** Validates an input given in parts. */
function check(parts: string | Iterable<string | Buffer>, endpoint: BatchEndpoint = chat) {
  const body = async function* () {
    for (const part of typeof parts === 'string' ? [parts] : parts) yield Buffer.from(part)
  }
  return validateInput({ catalog }, body(), endpoint)
}

async function faultsOf(parts: Parameters<typeof check>[0], endpoint?: BatchEndpoint) {
  const found = await check(parts, endpoint)
  return 'faults' in found ? found.faults : []
}

type Expected = [code: ErrorCode, line: number | null, param: string | null, says?: RegExp | undefined]

async function finds(t: ExecutionContext, parts: Parameters<typeof check>[0], expected: Expected[], what?: string) {
  const faults = await faultsOf(parts)
  const shown = `${what}: ${JSON.stringify(faults).slice(0, 1_000)}`
  t.deepEqual(
    faults.map(({ code, line: number, param }) => [code, number, param]),
    expected.map(([code, number, param]) => [code, number, param]),
    shown,
  )
  for (const [index, { message }] of faults.entries()) t.regex(message, expected[index]![3] ?? /.{10}/, shown)
}

test('a valid input has its figures, on every endpoint', async t => {
  t.deepEqual(await check(`${line('a')}\n${line('b')}\n`), { total: 2, model: 'gpt-5.6-luna' })
  for (const endpoint of Object.keys(batchEndpoints) as BatchEndpoint[]) {
    const body = validBodies[endpoint]
    const text = JSON.stringify({ ...request('a', {}, { url: endpoint }), body })
    t.deepEqual(await check(text, endpoint), { total: 1, model: body.model }, endpoint)
    t.deepEqual(parseRequest(Buffer.from(text), endpoint), { customId: 'a', body })
    t.deepEqual(readRequest(Buffer.from(text)), { customId: 'a', body })
  }
})

test('a model is the batch’s own when all lines name it and no other', async t => {
  const named: [object[], string | null][] = [
    [[{}, { model: 'OpenAI/GPT-5.6-luna' }, { model: 'gpt-5.6-LUNA' }], 'gpt-5.6-luna'],
    [[{}, { model: 'gpt-5.4-mini' }, {}], null],
    [[{ model: 'gpt-5.4-mini' }, {}, {}], null],
    [[{ model: 'auto' }], null],
    [[{ model: 'auto' }, {}], null],
    [[{}, { model: 'auto' }], null],
    [[{ model: 'auto:floor' }], null],
    [[{ model: 'gpt-5.6-luna:floor' }], null],
    [[{}, { models: ['gpt-5.4-mini'] }], null],
    [[{ models: ['auto'] }], null],
    [[{ provider: { only: ['openai'] } }, {}], 'gpt-5.6-luna'],
  ]
  for (const [bodies, model] of named) {
    const text = bodies.map((body, index) => line(`r${index}`, body)).join('\n')
    t.deepEqual(await check(text), { total: bodies.length, model }, text)
  }
})

/** Bad lines for an input whose first one is `first`. */
const cases: [name: string, text: string | Buffer, code: ErrorCode, param: string | null, says?: RegExp][] = [
  ['cut off', line('x').slice(0, 40), 'invalid_json', null],
  ['two objects', `${line('x')} ${line('y')}`, 'invalid_json', null],
  ['no JSON', 'custom_id,method', 'invalid_json', null, /^The line is not valid JSON/],
  ['a field twice', line('x').replace('"method"', '"custom_id":"y","method"'), 'invalid_json', 'custom_id'],
  ['a deep field twice', line('x').replace('"role"', '"role":"user","role"'), 'invalid_json', 'role'],
  ['too deep', line('x', { x: JSON.parse('['.repeat(200) + ']'.repeat(200)) }), 'invalid_json', null, /deeper/],
  ['invalid UTF-8', Buffer.from(line('x\xff'), 'latin1'), 'invalid_json', null, /UTF-8/],
  ['a raw NUL', `${line('x')}\0`, 'invalid_json', null],
  ['a mark of UTF-8 inside', `\ufeff${line('x')}`, 'invalid_json', null],
  ['a lone surrogate', line('x').replace('Hello', '\\ud83d'), 'invalid_request', 'body.messages.0.content'],
  ['an array', `[${line('x')}]`, 'invalid_request', null, /^The line must be a JSON object/],
  ['a number', '7', 'invalid_request', null],
  ['null', 'null', 'invalid_request', null],
  ['an unknown field', line('x', {}, { priority: 1 }), 'unknown_field', 'priority'],
  ['a misspelt field', line('x', {}, { custom_ids: 1 }), 'unknown_field', 'custom_ids', /Did you mean `custom_id`\?/],
  [
    'a misspelt field of an object',
    line('x', { provider: { onyl: [] } }),
    'unknown_field',
    'body.provider.onyl',
    /Did you mean `only`\?/,
  ],
  ['a search', line('x', { search: { mode: 'on' } }), 'invalid_request', 'body.search'],
  ['no custom_id', line('x', {}, { custom_id: undefined }), 'missing_field', 'custom_id'],
  ['a number as custom_id', line('x', {}, { custom_id: 7 }), 'invalid_request', 'custom_id'],
  ['an empty custom_id', line(''), 'invalid_request', 'custom_id'],
  ['a long custom_id', line('x'.repeat(513)), 'invalid_request', 'custom_id'],
  ['no method', line('x', {}, { method: undefined }), 'missing_field', 'method'],
  ['another method', line('x', {}, { method: 'GET' }), 'invalid_request', 'method', /POST/],
  ['a small method', line('x', {}, { method: 'post' }), 'invalid_request', 'method'],
  ['no url', line('x', {}, { url: undefined }), 'missing_field', 'url'],
  ['another url', line('x', {}, { url: '/v1/embeddings' }), 'invalid_request', 'url', /chat.*embeddings/],
  ['a whole url', line('x', {}, { url: `https://api.openai.com${chat}` }), 'invalid_request', 'url'],
  ['a list as url', line('x', {}, { url: [chat] }), 'invalid_request', 'url'],
  ['no body', line('x', {}, { body: undefined }), 'missing_field', 'body'],
  ['a text as body', line('x', {}, { body: '{}' }), 'invalid_request', 'body'],
  ['no model', line('x', { model: undefined }), 'missing_field', 'body.model'],
  ['no messages', line('x', { messages: undefined }), 'missing_field', 'body.messages'],
  [
    'a message without content',
    line('x', { messages: [{ role: 'user' }] }),
    'missing_field',
    'body.messages.0.content',
  ],
  [
    'a wrong part',
    line('x', { messages: [{ role: 'user', content: [7] }] }),
    'invalid_request',
    'body.messages.0.content.0',
  ],
  ['a wrong number', line('x', { temperature: 3 }), 'invalid_request', 'body.temperature'],
  ['a stream', line('x', { stream: true }), 'invalid_request', 'body.stream', /stream/],
  ['an unknown model', line('m1', { model: 'gpt-99' }), 'model_not_found', 'body.model', /gpt-99/],
  [
    'a misspelt model',
    line('m5', { model: 'gpt-5.4-mimi' }),
    'model_not_found',
    'body.model',
    /Did you mean `gpt-5.4-mini`\?/,
  ],
  ['a disabled model', line('m2', { model: 'gone' }), 'model_not_found', 'body.model'],
  ['an unknown fallback', line('m3', { models: ['gpt-5.4-mini', 'gpt-99'] }), 'model_not_found', 'body.models.1'],
  ['a model of another kind', line('m4', { model: 'tts-1' }), 'invalid_request', 'body.model', /audio.speech/],
  ['a repeated custom_id', line('first'), 'invalid_request', 'custom_id', /line 1\b/],
]

test('a line that is no good is named with its number, and so is its field', async t => {
  for (const [name, text, code, param, says] of cases) {
    const parts = [`${line('first')}\n`, text, `\n${line('third')}`]
    await finds(t, parts, [[code, 2, param, says]], name)
  }
  const whole = cases.flatMap(([, text]) => [text, '\n'])
  const expected = cases.map(([, , code, param], index): Expected => [code, index + 2, param])
  await finds(t, [`${line('first')}\n`, ...whole], expected, 'all at once')
})

test('auto, fallbacks and streams are judged by the endpoint', async t => {
  const [embed, complete] = ['/v1/embeddings', '/v1/completions'] as const
  const judged: [BatchEndpoint, object, Expected | null][] = [
    [embed, { model: 'auto' }, ['model_not_found', 1, 'body.model']],
    [embed, { model: 'gpt-5.6-luna' }, ['invalid_request', 1, 'body.model']],
    [embed, { stream: true }, ['invalid_request', 1, 'body.stream']],
    [embed, { models: 5 }, ['invalid_request', 1, 'body.models']],
    [embed, { input: [] }, ['invalid_request', 1, 'body.input']],
    [complete, { model: 'auto' }, ['model_not_found', 1, 'body.model']],
    [complete, { stream: false, stream_options: { include_usage: true } }, null],
    [complete, { stream: true }, ['invalid_request', 1, 'body.stream']],
  ]
  for (const [endpoint, fields, expected] of judged) {
    const text = JSON.stringify({
      ...request('a', {}, { url: endpoint }),
      body: { ...validBodies[endpoint], ...fields },
    })
    const faults = await faultsOf(text, endpoint)
    const found = faults.map(({ code, line: number, param }) => [code, number, param])
    t.deepEqual(found, expected ? [expected] : [], text)
  }
})

test('a custom_id may be any text of 512 characters', async t => {
  const ids = ['x'.repeat(512), ' ', 'ä€𝕏', '\0', '__proto__', 'constructor', '{"a":1}', 'line\nfeed']
  t.deepEqual(await check(ids.map(id => `${line(id)}\n`)), { total: ids.length, model: 'gpt-5.6-luna' })
  for (const id of ids) t.is(readRequest(Buffer.from(line(id))).customId, id)
})

test('lines may end with \\r\\n; a byte order mark may not be there', async t => {
  t.deepEqual(await check(`${line('a')}\r\n${line('b')}\r\n\r\n`), { total: 2, model: 'gpt-5.6-luna' })
  await finds(t, `\ufeff${line('a')}\n${line('b')}`, [['invalid_json', 1, null, /without/]])
  await finds(t, [Buffer.from(`\ufeff${line('a')}`, 'utf16le')], [['invalid_json', 1, null, /UTF-8/]])
})

test('blank lines are ignored at the end and are faults before it', async t => {
  for (const end of ['', '\n', '\n\n', '\n \n\t\r\n', '\n'.repeat(101)])
    t.deepEqual(await check(line('a') + end), { total: 1, model: 'gpt-5.6-luna' }, JSON.stringify(end))
  await finds(t, `\n${line('a')}\n\n \r\n${line('b')}\n\n`, [
    ['invalid_json', 1, null, /^Line 1 is blank/],
    ['invalid_json', 3, null, /^Line 3 is blank/],
    ['invalid_json', 4, null, /^Line 4 is blank/],
  ])
  await finds(t, `${line('a')}\n\n{\n\n`, [
    ['invalid_json', 2, null],
    ['invalid_json', 3, null],
  ])
  t.true(['', ' ', '\t', '\r', ' \t\r'].every(text => isBlank(Buffer.from(text))))
  t.false(['{}', ' x', '\0', '\v', '\u00a0', '\ufeff'].some(text => isBlank(Buffer.from(text))))
})

test('an input without requests is at fault as a whole', async t => {
  for (const text of ['', '\n', ' \r\n\n', '\n'.repeat(100)]) await finds(t, text, [['invalid_request', null, null]])
})

test('an endless row of blank lines is not read to its end', async t => {
  let parts = 0
  const endless = async function* () {
    for (;;) {
      parts++
      yield Buffer.from('\n'.repeat(40))
      await setImmediate()
    }
  }
  const found = await validateInput({ catalog }, endless(), chat)
  t.is('faults' in found && found.faults.length, 100)
  t.is(parts, 3)
})

test('a line over 10 MiB is at fault, one of 10 MiB is not, and reading goes on', async t => {
  const padded = (id: string, bytes: number) => line(id).padEnd(bytes)
  const parts = [padded('a', 10 * 1024 * 1024), '\n', padded('b', 10 * 1024 * 1024 + 1), '\n', '{', '\n', line('a')]
  await finds(t, parts, [
    ['request_too_large', 2, null],
    ['invalid_json', 3, null],
    ['invalid_request', 4, 'custom_id'],
  ])
})

/** Lines `from` to `to`, in parts of many lines. */
function* many(from: number, to: number): Generator<string> {
  for (let start = from; start <= to; start += 1_000) {
    let part = ''
    for (let number = start; number < start + 1_000 && number <= to; number++) part += `${line(`r${number}`)}\n`
    yield part
  }
}

test('50,000 requests are taken; the next one is a fault, and nothing is read after it', async t => {
  const whole = [...many(1, 50_000)]
  t.deepEqual(await check([...whole, '\n\n']), { total: 50_000, model: 'gpt-5.6-luna' })
  const more = function* () {
    yield* whole
    yield `${line('more')}\n`
    t.fail('the rest is read')
    yield line('rest')
  }
  await finds(t, more(), [['invalid_request', 50_001, null, /50,000 requests/]])
  await finds(t, [...whole, '{'], [['invalid_request', 50_001, null]])
  await finds(
    t,
    [...many(1, 49_998), '{"custom_id":"r7"}\n', line('r50000'), '\n', line('more')],
    [
      ['missing_field', 49_999, 'method'],
      ['invalid_request', 50_001, null],
    ],
  )
  await finds(
    t,
    [...many(1, 49_998), line('r7'), '\n', line('r50000')],
    [['invalid_request', 49_999, 'custom_id', /line 7\b/]],
  )
})

test('the first 100 faults are told, in order, and nothing is read after them', async t => {
  const lines = function* () {
    for (let number = 1; number <= 100; number++) yield `${line(`r${number}`)}\n{}\n`
    t.fail('the rest is read')
    yield '{'
  }
  const faults = await faultsOf(lines())
  t.deepEqual(
    faults.map(({ line: number }) => number),
    Array.from({ length: 100 }, (_, index) => 2 * index + 2),
  )
})

test('a body that breaks off is no fault of its lines', async t => {
  const broken = async function* () {
    yield Buffer.from('{}\n')
    throw new Error('reset')
  }
  await t.throwsAsync(validateInput({ catalog }, broken(), chat), { message: 'reset' })
})

const damage = fc.record({ at: fc.nat(400), remove: fc.nat(4), insert: fc.uint8Array({ maxLength: 3 }) })

test('whatever bytes a file has, its faults are short text that Postgres stores, and a good line is read as it was checked', async t => {
  const whole = Buffer.from(
    [line('\0', { '\0': 1, max_tokens: 5 }), line('ä𝕏'), line('c', {}, { 'a\0': 1 })].join('\n'),
  )
  const property = fc.asyncProperty(damage, async ({ at, remove, insert }) => {
    const bytes = Buffer.concat([whole.subarray(0, at), insert, whole.subarray(at + remove)])
    const faults = await faultsOf([bytes])
    t.true(faults.length > 0)
    for (const { message, param } of faults) {
      t.true(message.length < 500 && (param ?? '').length <= 200)
      for (const text of [message, param ?? '']) t.true(text.isWellFormed() && !text.includes('\0'), text)
    }
    const end = bytes.indexOf('\n')
    if (end < 0 || faults[0]!.line === 1) return
    const first = bytes.subarray(0, end)
    t.deepEqual(readRequest(first), parseRequest(first, chat))
  })
  await fc.assert(property, { numRuns: 500, seed: 20261121 })
})
