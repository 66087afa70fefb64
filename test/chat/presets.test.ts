import { on, once } from 'node:events'
import { WebSocket } from 'ws'
import { parseRequest } from '../../shared/batches/request.ts'
import { readWork } from '../../shared/delayed/delayed-row.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import type { PresetConfig } from '../../shared/presets/preset-config.ts'
import { Emulator } from '../emulators/emulator.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const upstream = use(test, () =>
  Emulator.start((request, response) => {
    const { model } = request.body
    if (request.body.stream) {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const choices = [{ index: 0, delta: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }]
      const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 }
      const chunk = { id: 'c', object: 'chat.completion.chunk', created: 1, model, choices, usage }
      return void response.end(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`)
    }
    response.writeHead(200, { 'content-type': 'application/json' })
    const choices = [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }]
    const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 }
    response.end(
      JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: request.body.model, choices, usage }),
    )
  }),
)
const gateway = useGateway(test, () => ({ MISTRAL_API_KEY: 'sk-mistral', MISTRAL_BASE_URL: `${upstream.url}/v1` }))
const account = use(test, () => gateway.account())
const model = 'mistral-large-latest'
const support: PresetConfig = {
  model,
  system: 'You are kind.',
  temperature: 0.3,
  top_p: 0.9,
  max_tokens: 77,
  stop: ['END'],
}

const save = (name: string, config: PresetConfig) =>
  gateway.services.presets.save(account.organisationId, name, config, operatorActor)
test.before(async () => {
  await save('support', support)
})

const post = (path: string, body: object, key = account.live) => gateway.fetch(path, { key, body })
const sent = () => upstream.requests.at(-1)!.body
const user = { role: 'user', content: 'Hi' }

const requests: Record<string, [path: string, body: object]> = {
  'chat completions': ['/v1/chat/completions', { model: '@preset/support', messages: [user] }],
  messages: ['/v1/messages', { model: '@preset/support', messages: [user] }],
  responses: ['/v1/responses', { model: '@preset/support', input: 'Hi', store: false }],
  'generate content': ['/v1beta/models/@preset/support:generateContent', { contents: [{ parts: [{ text: 'Hi' }] }] }],
}

for (const [dialect, [path, body]] of Object.entries(requests))
  test.serial(
    `200 for a preset as the model of ${dialect}: it has the model, the system prompt and the settings`,
    async t => {
      const answer = await post(path, body)
      t.is(answer.status, 200, await answer.clone().text())
      t.is(answer.headers.get('x-gateway-preset'), 'support@1')
      const { messages, temperature, top_p: topP, max_tokens: limit } = sent()
      t.deepEqual(
        messages.map(({ role }: { role: string }) => role),
        ['system', 'user'],
      )
      t.regex(JSON.stringify(messages[0]), /You are kind\./)
      t.deepEqual({ temperature, topP, limit }, { temperature: 0.3, topP: 0.9, limit: 77 })
      if (dialect !== 'responses') t.deepEqual(sent().stop, ['END'])
      t.false('preset' in sent())
    },
  )

test.serial('200: what a request states itself wins over its preset', async t => {
  const body = {
    preset: 'support',
    model: 'mistral-small-latest',
    temperature: 1,
    messages: [{ role: 'system', content: 'Be brief.' }, user],
  }
  const answer = await post('/v1/chat/completions', { ...body, max_completion_tokens: 9 })
  t.is(answer.headers.get('x-gateway-model'), 'mistral-small-4')
  t.like(sent(), { temperature: 1, top_p: 0.9, max_tokens: 9 })
  t.deepEqual(sent().messages, body.messages)
  const beside = await post('/v1/chat/completions', { model: 'mistral-small-latest@preset/support', messages: [user] })
  t.is(beside.headers.get('x-gateway-model'), 'mistral-small-4')
  t.is(sent().temperature, 0.3)
})

test.serial('200 for a version: a change makes a new one, and an earlier one can be pinned and used again', async t => {
  const { presets } = gateway.services
  await save('support', support)
  t.is(
    (await presets.versions(account.organisationId, 'support')).versions.length,
    1,
    'the same config is no new version',
  )
  await save('support', { ...support, temperature: 0.8 })
  const ask = async (name: string) => {
    const answer = await post('/v1/chat/completions', { model: name, messages: [user] })
    return [answer.headers.get('x-gateway-preset'), sent().temperature]
  }
  t.deepEqual(await ask('@preset/support'), ['support@2', 0.8])
  t.deepEqual(await ask('@preset/support@1'), ['support@1', 0.3])
  await presets.use(account.organisationId, 'support', 1, operatorActor)
  t.deepEqual(await ask('@preset/support'), ['support@1', 0.3])
  await save('support', { ...support, temperature: 0.5 })
  t.deepEqual(await ask('@preset/support'), ['support@3', 0.5])
})

test.serial('400 for a preset that there is not, a wrong name, and two names', async t => {
  const cases: [object, RegExp, string][] = [
    [{ model: '@preset/nothing' }, /no preset "nothing"/, 'model'],
    [{ model: '@preset/support@99' }, /has no version 99/, 'model'],
    [{ model: '@preset/Not A Name' }, /name@version/, 'model'],
    [{ preset: 'nothing', model }, /no preset "nothing"/, 'preset'],
    [{ preset: 7, model }, /name@version/, 'preset'],
    [{ preset: { toString: 1 }, model }, /name@version/, 'preset'],
    [{ preset: 'support', model: '@preset/support' }, /not in both/, 'preset'],
  ]
  for (const [body, message, param] of cases) {
    const answer = await post('/v1/chat/completions', { messages: [user], ...body })
    t.is(answer.status, 400)
    const { error } = (await answer.json()) as { error: { message: string; param: string } }
    t.regex(error.message, message)
    t.is(error.param, param)
  }
  await save('modelless', { temperature: 0.1 })
  t.is((await post('/v1/chat/completions', { model: '@preset/modelless', messages: [user] })).status, 400)
  t.is((await post('/v1/chat/completions', { model: `${model}@preset/modelless`, messages: [user] })).status, 200)
})

test.serial('400 for the preset of another organisation', async t => {
  const other = await gateway.account()
  t.is((await post('/v1/chat/completions', { model: '@preset/support', messages: [user] }, other.live)).status, 400)
})

test.serial('403 for a preset whose model the key may not use', async t => {
  const limited = await gateway.key(account.organisationId, 'live', { model_allowlist: ['gpt-4o'] })
  const refused = await post('/v1/chat/completions', { model: '@preset/support', messages: [user] }, limited)
  t.is(refused.status, 403)
  const allowed = await gateway.key(account.organisationId, 'live', { model_allowlist: [model] })
  t.is((await post('/v1/chat/completions', { model: '@preset/support', messages: [user] }, allowed)).status, 200)
})

test.serial('200: the request log has the preset with its version', async t => {
  const answer = await post('/v1/chat/completions', { model: '@preset/support', messages: [user] })
  await gateway.settled()
  const row = await gateway.services.db.generation.findFirstOrThrow({
    where: { id: answer.headers.get('x-generation-id')! },
  })
  t.like(row.parameters, { preset: 'support@3', temperature: 0.5 })
})

test.serial('response.completed for a turn over a WebSocket with a preset, which the request log has', async t => {
  const headers = { authorization: `Bearer ${account.live}` }
  const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}/v1/responses`, { headers })
  t.teardown(() => socket.terminate())
  await once(socket, 'open')
  socket.send(JSON.stringify({ type: 'response.create', model: '@preset/support', input: 'Hi', store: false }))
  for await (const [data] of on(socket, 'message')) {
    const { type, error } = JSON.parse(String(data))
    t.is(error, undefined)
    if (type === 'response.completed') break
  }
  t.like(sent(), { temperature: 0.5, max_tokens: 77 })
  t.regex(JSON.stringify(sent().messages[0]), /You are kind/)
  await gateway.settled()
  const row = await gateway.services.db.generation.findFirstOrThrow({ orderBy: { createdAt: 'desc' } })
  t.like(row, { kind: 'responses', parameters: { preset: 'support@3' } })
})

test('a line of a batch with a preset is refused', t => {
  for (const body of [{ model: '@preset/support' }, { model, preset: 'support' }]) {
    const line = { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: { ...body, messages: [user] } }
    const parse = () => parseRequest(Buffer.from(JSON.stringify(line)), '/v1/chat/completions')
    t.throws(parse, { message: /do not take presets/ })
  }
})

test.serial('200 for other routes: a preview of the route, counts of tokens, and a delayed job', async t => {
  const preview = await post('/v1/route', { model: '@preset/support', messages: [user] })
  t.is(preview.status, 200)
  const counted = await post('/v1/messages/count_tokens', { model: '@preset/support', messages: [user] })
  const plain = await post('/v1/messages/count_tokens', { model, messages: [user] })
  const tokens = async (answer: Response) => ((await answer.json()) as { input_tokens: number }).input_tokens
  t.true((await tokens(counted)) > (await tokens(plain)), 'the system prompt counts')
  const job = await post('/v1/jobs', { body: { model: '@preset/support', messages: [user] }, completion_window: '1h' })
  t.is(job.status, 202, await job.clone().text())
  t.is(job.headers.get('x-gateway-preset'), 'support@3')
})

test.serial('202 for a delayed job with a preset: the settings have the names of its endpoint', async t => {
  const named = { model: '@preset/support', messages: [user] }
  const jobs: [endpoint: unknown, body: object, expected: object][] = [
    ['/v1/messages', named, { system: 'You are kind.', messages: [user], max_tokens: 77, stop_sequences: ['END'] }],
    [
      '/v1/responses',
      { model: '@preset/support', input: 'Hi', store: false },
      { instructions: 'You are kind.', max_output_tokens: 77 },
    ],
    ['/v1/chat/completions', named, { messages: [{ role: 'system', content: 'You are kind.' }, user], max_tokens: 77 }],
  ]
  for (const [endpoint, body, expected] of jobs) {
    const answer = await post('/v1/jobs', { endpoint, body, completion_window: '1h' })
    t.is(answer.status, 202, await answer.clone().text())
    const { id } = (await answer.json()) as { id: string }
    t.like(readWork((await gateway.services.jobs.read(id))!).body, expected)
  }
  for (const endpoint of ['/v1/embeddings', { toString: 1 }])
    t.is((await post('/v1/jobs', { endpoint, body: named, completion_window: '1h' })).status, 400)
})

test.serial('409 for another job with a preset under the same Idempotency-Key', async t => {
  const headers = { 'idempotency-key': 'a job with a preset' }
  const ask = (completion_window: string) => {
    const body = { body: { model: '@preset/support', messages: [user] }, completion_window }
    return gateway.fetch('/v1/jobs', { key: account.live, body, headers })
  }
  t.is((await ask('1h')).status, 202)
  t.is((await ask('1h')).headers.get('idempotent-replayed'), 'true')
  t.is((await ask('6h')).status, 409)
})

test.serial('200 while the preset is changed by another process: it is used within a second', async t => {
  const { db } = gateway.services
  const preset = await db.preset.findFirstOrThrow({ where: { name: 'support' } })
  await db.preset.update({ where: { id: preset.id }, data: { current: 1 } })
  for (;;) {
    const answer = await post('/v1/chat/completions', { model: '@preset/support', messages: [user] })
    if (answer.headers.get('x-gateway-preset') === 'support@1') break
  }
  t.is(sent().temperature, 0.3)
})
