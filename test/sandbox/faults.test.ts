import { type Dispatcher, errors } from 'undici'
import { createSandbox } from '../../shared/providers/sandbox/upstream.ts'
import { chat, chatPath, type Json, type Options, opened, origin, send, weather } from '../support/sandbox.ts'
import { test } from '../support/test.ts'

for (const [path, input] of [
  [chatPath, { messages: [{ role: 'user', content: 'please sandbox:fail now' }] }],
  ['/v1/completions', { prompt: ['ok', 'sandbox:fail'] }],
  ['/v1/embeddings', { input: 'sandbox:fail' }],
] as const) {
  test(`500 when the input of ${path} says sandbox:fail`, async t => {
    const { sandbox } = opened(t)
    const { statusCode, body } = await send(sandbox, path, { model: 'm', ...input })
    t.is(statusCode, 500)
    t.is(((await body.json()) as Json).error.type, 'server_error')
  })
}

test('429 with retry-after when the input says sandbox:rate_limit', async t => {
  const { sandbox } = opened(t)
  const { statusCode, headers, body } = await send(sandbox, chatPath, chat('sandbox:rate_limit', { stream: true }))
  t.is(statusCode, 429)
  t.is(headers['retry-after'], '1')
  t.is(((await body.json()) as Json).error.code, 'rate_limit_exceeded')
})

test('no answer to sandbox:timeout until the caller or its first-byte timeout gives up', async t => {
  const { sandbox } = opened(t)
  await t.throwsAsync(send(sandbox, chatPath, chat('sandbox:timeout'), { method: 'POST', headersTimeout: 20 }), {
    instanceOf: errors.HeadersTimeoutError,
  })
  const controller = new AbortController()
  const waiting = send(sandbox, chatPath, chat('sandbox:timeout'), { method: 'POST', signal: controller.signal })
  controller.abort(new Error('gone'))
  await t.throwsAsync(waiting, { message: 'gone' })
})

test('a late answer to sandbox:slow, and none at all once aborted', async t => {
  const { sandbox, post } = opened(t)
  const before = performance.now()
  await post(chatPath, chat('sandbox:slow=30'))
  t.true(performance.now() - before >= 25)
  const controller = new AbortController()
  const waiting = send(sandbox, chatPath, chat('sandbox:slow=99999999'), { method: 'POST', signal: controller.signal })
  setImmediate(() => controller.abort(new Error('gone')))
  await t.throwsAsync(waiting, { message: 'gone' })
  // Nothing is open any more: no timer of the slow answer is waited for.
  await sandbox.close()
})

test('aborting a stream ends it at once', async t => {
  const { sandbox } = opened(t)
  const { body } = await send(sandbox, chatPath, chat('word '.repeat(100_000), { stream: true }))
  let seen = 0
  await t.throwsAsync(
    async () => {
      for await (const _chunk of body) if (++seen === 3) body.destroy(new Error('enough'))
    },
    { message: 'enough' },
  )
  await sandbox.close()
  t.true(seen < 100)
})

test('a paused stream waits, and goes on where it was', async t => {
  const { sandbox } = opened(t)
  const text = 'abcdefgh '.repeat(5000)
  const { promise: ended, resolve } = Promise.withResolvers<string>()
  const { promise: paused, resolve: pausedBy } = Promise.withResolvers<Dispatcher.DispatchController>()
  let received = ''
  let pieces = 0
  const body = JSON.stringify(chat(text, { stream: true }))
  sandbox.dispatch(
    { origin, path: chatPath, method: 'POST', body },
    {
      onResponseData(controller, chunk) {
        received += chunk.toString()
        if (++pieces !== 10) return
        controller.pause()
        pausedBy(controller)
      },
      onResponseEnd: () => resolve(received),
    },
  )
  const controller = await paused
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
  t.is(pieces, 10)
  controller.resume()
  const events = (await ended).split('\n\n').filter(event => event.startsWith('data: {'))
  t.is(events.map(event => JSON.parse(event.slice(6)).choices[0].delta.content ?? '').join(''), text)
})

test('400 naming the field, and 404 for other paths', async t => {
  const { sandbox } = opened(t)
  const failing = async (path: string, body: object | string, options?: Options): Promise<[number, string | null]> => {
    const response = await send(sandbox, path, body, options)
    const { error } = (await response.body.json()) as Json
    return [response.statusCode, error.param]
  }
  t.deepEqual(await failing(chatPath, '{'), [400, null])
  t.deepEqual(await failing(chatPath, { model: 'm', messages: [{ role: 'user', content: 1 }] }), [
    400,
    'messages.0.content',
  ])
  const named = { type: 'function', function: { name: 'missing' } }
  t.deepEqual(await failing(chatPath, chat('x', { tools: [weather], tool_choice: named })), [400, 'tool_choice'])
  t.deepEqual(await failing('/v1/embeddings', { model: 'm', input: 'x', dimensions: 60_000 }), [400, 'dimensions'])
  t.deepEqual(await failing('/v1/images', {}), [404, null])
  t.deepEqual(await failing('/v1/embeddings', '', { method: 'PUT' }), [404, null])
})

test('closed: no request is taken, and destroy ends what is open', async t => {
  const sandbox = createSandbox()
  const hanging = send(sandbox, chatPath, chat('sandbox:timeout'))
  const destroyed = sandbox.destroy()
  await t.throwsAsync(hanging, { instanceOf: errors.ClientDestroyedError })
  await destroyed
  await t.throwsAsync(send(sandbox, chatPath, chat('x')), { instanceOf: errors.ClientClosedError })
})

test('an answer stays bounded: many choices of a long text are cut', async t => {
  const { post } = opened(t)
  const answer = await post(chatPath, chat('word '.repeat(100_000), { n: 100 }))
  t.is(answer.choices[0].finish_reason, 'length')
  t.true(JSON.stringify(answer).length < 2_000_000)
})
