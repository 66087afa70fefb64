import { eventually } from '../support/gateway.ts'
import { spentNano, startSessions, type Talk, talk } from '../support/realtime/sessions.ts'
import { openSession } from '../support/realtime/sockets.ts'
import { minutesNano } from '../support/realtime/talks.ts'
import { test } from '../support/test.ts'
import { use, useStores } from '../support/use.ts'

const openai = 'gpt-realtime-2.1'
const live = 'gpt-live-1'
const xai = 'grok-voice'

const stores = useStores(test)
const world = use(test, () => startSessions(stores))
const account = use(test, () => world.gateway.account())

const json = JSON.stringify
const update = (session: object) => json({ type: 'session.update', session })
const respond = (response: object) => json({ type: 'response.create', response })
const delegating = (tools: unknown, more: object = {}) => ({
  delegation: { type: 'responses', responses: { model: 'gpt-5-mini', tools, ...more } },
})
/** A function whose parameters have the names of what is looked for. */
const call = {
  type: 'function',
  name: 'look_up',
  description: '"tools"',
  parameters: { properties: { tools: { type: 'web_search' }, prompt: { id: 'string' } } },
}
const search = '{"type":"web_search"}'

type Case = [frame: string | Buffer, code: string, param: string | null, message: RegExp]
const hosted = 'unsupported_capability'
const unreadable = 'invalid_json'

/** However it is written, for every model. */
const anyModel: Case[] = [
  [`{"type":"session.update","session":{"t\\u006fols":[${search}]}}`, unreadable, null, /escapes/],
  [`{"type":"session.update","session":{"\\u0054OOLS":[${search}]}}`, unreadable, null, /escapes/],
  [`{"session":{"tools":[${search}]},"session":{}}`, unreadable, 'session', /twice/],
  [`{"type":"input_audio_buffer.append","type":"session.update","tools":[]}`, unreadable, 'type', /twice/],
  [`{"type":"session.update","session":{"temperature":NaN,"tools":[${search}]}}`, unreadable, null, /not valid JSON/],
  [`\ufeff{"type":"session.update","session":{"tools":[${search}]}}`, unreadable, null, /not valid JSON/],
  [Buffer.from(`{"session":{"tools":[${search}]}}\xff`, 'latin1'), unreadable, null, /UTF-8/],
  [Buffer.from(update({ tools: [{ type: 'web_search' }] })), hosted, 'session.tools', /web_search/],
  [update({ Tools: [{ type: 'web_search' }] }), hosted, 'session.Tools', /web_search/],
  [`{"session":{"tools":[{"type":"web\\u005fsearch"}]}}`, hosted, 'session.tools', /web_search/],
  [update({ tools: { type: 'web_search' } }), hosted, 'session.tools', /web_search/],
  [update({ tools: [call, 'web_search'] }), hosted, 'session.tools', /function/],
  [update({ tools: [null] }), hosted, 'session.tools', /function/],
  [update({ tools: [{ type: ['function'] }] }), hosted, 'session.tools', /function/],
  [json({ type: 'response.create', tools: [{ type: 'x_search' }] }), hosted, 'tools', /x_search/],
  [update({ prompt: { id: 'pmpt_1' } }), hosted, 'session.prompt', /stored prompt/],
]

const refused: Record<string, Case[]> = {
  [openai]: [
    [update({ tools: [call, { type: 'mcp', server_url: 'https://x.example' }] }), hosted, 'session.tools', /mcp/],
    [respond({ tools: [{ type: 'mcp', connector_id: 'connector_gmail' }] }), hosted, 'response.tools', /mcp/],
    [respond({ prompt: { id: 'pmpt_1', version: '2' } }), hosted, 'response.prompt', /stored prompt/],
  ],
  [live]: [
    ...['file_search', 'code_interpreter', 'shell', 'mcp', 'image_generation', 'namespace'].map((type): Case => {
      const session = { model: live, ...delegating([call, { type, vector_store_ids: ['vs_1'] }]) }
      const param = 'session.delegation.responses.tools'
      return [json({ type: 'session.start', session }), hosted, param, new RegExp(type)]
    }),
    [update(delegating([{ type: 'web_search' }])), hosted, 'session.delegation.responses.tools', /web_search/],
    [
      update(delegating([], { tool_choice: { type: 'allowed_tools', tools: [{ type: 'file_search' }] } })),
      hosted,
      'session.delegation.responses.tool_choice.tools',
      /file_search/,
    ],
    [
      json({ type: 'response.item.create', item: { type: 'additional_tools', tools: [{ type: 'shell' }] } }),
      hosted,
      'item.tools',
      /shell/,
    ],
    [respond({ input: [{ tools: [{ type: 'mcp' }] }] }), hosted, 'response.input.0.tools', /mcp/],
    ...['priority', 'ultrafast', 1].map((service_tier): Case => {
      const session = { model: live, ...delegating([], { service_tier }) }
      const param = 'session.delegation.responses.service_tier'
      return [json({ type: 'session.start', session }), hosted, param, /service tier/]
    }),
    ...['o3-pro', 'gpt-5-pro', 'gpt-99'].map((model): Case => {
      const param = 'session.delegation.responses.model'
      return [update(delegating([], { model })), hosted, param, new RegExp(`no price for \\W${model}`)]
    }),
    [
      update({ delegation: { type: 'decisions', decisions: { model: 'gpt-5-pro', questions: [] } } }),
      hosted,
      'session.delegation.decisions.model',
      /no price/,
    ],
    [
      json({ type: 'response.item.create', item: { content: [{ type: 'input_file', file_id: 'file-1' }] } }),
      hosted,
      'item.content.0.file_id',
      /by id/,
    ],
  ],
  [xai]: ['x_search', 'file_search', 'collections_search', 'mcp'].map((type): Case => {
    const tools = [{ type, vector_store_ids: ['collection_1'] }]
    return [update({ tools }), hosted, 'session.tools', new RegExp(type)]
  }),
}

for (const [model, own] of Object.entries(refused)) {
  const cases = [...anyModel, ...own]
  test.serial(
    `400 for every frame of ${model} that names tools of the provider’s, which hears nothing of it`,
    async t => {
      const session = await talk(world, account.live, model)
      for (const [frame] of cases) session.socket.send(frame)
      await pass(session, '{"type":"input_audio_buffer.commit"}')
      t.deepEqual(
        session.provider.events.map(({ type }) => type),
        ['mark', 'input_audio_buffer.commit'],
      )
      await eventually(() => session.events.length >= cases.length, 'every frame is answered')
      t.is(session.events.length, cases.length)
      for (const [index, [frame, code, param, message]] of cases.entries()) {
        const { type, event_id: eventId, error } = session.events[index]
        t.is(type, 'error')
        t.is(typeof eventId, 'string')
        t.like(error, { type: 'invalid_request_error', code }, String(frame))
        t.is(error.param ?? null, param, String(frame))
        t.regex(error.message, message)
      }
      t.is(session.closed, null)
      session.socket.terminate()
    },
  )
}

test.serial('403 for tasks that a session delegates to a model which its key may not use', async t => {
  const key = await world.gateway.key(account.organisationId, 'live', { model_allowlist: [live, 'gpt-5-mini'] })
  const session = await talk(world, key, live)
  const deciding = { delegation: { type: 'decisions', decisions: { model: 'gpt-5', questions: [] } } }
  const frames: [frame: string, param: string][] = [
    [update(delegating([], { model: 'gpt-5' })), 'session.delegation.responses.model'],
    [update(delegating([], { model: 'gpt-5-2025-08-07' })), 'session.delegation.responses.model'],
    [update(deciding), 'session.delegation.decisions.model'],
  ]
  for (const [frame] of frames) session.socket.send(frame)
  await pass(session, update(delegating([])))
  t.deepEqual(
    session.provider.events.map(({ type, session }) => session?.delegation?.responses?.model ?? type),
    ['mark', 'gpt-5-mini'],
  )
  await eventually(() => session.events.length >= frames.length, 'every frame is answered')
  t.deepEqual(
    session.events.map(({ error }) => [error.code, error.param]),
    frames.map(([, param]) => ['model_not_allowed', param]),
  )
  t.is(session.closed, null)
  session.socket.terminate()
})

const writes = 'gpt-4o-transcribe'
/** The settings of a session that is transcribed by a model, as they are now and as the beta had them. */
const transcribedBy = (model: string | null) => [
  { voice: 'marin', audio: { input: { noise_reduction: { type: 'near_field' }, transcription: model && { model } } } },
  { voice: 'marin', input_audio_transcription: model && { model } },
]

test.serial(
  'a transcription by a model that the key may not use is turned off in the settings of a session',
  async t => {
    const key = await world.gateway.key(account.organisationId, 'live', { model_allowlist: [openai] })
    const session = await talk(world, key, openai)
    for (const settings of transcribedBy(`${writes}-2025-12-15`)) await pass(session, update(settings))
    const kept = transcribedBy(null).map(session => ({ type: 'session.update', session }))
    t.deepEqual(settingsIn(session), kept)
    t.deepEqual([session.closed, session.events], [null, []])
    session.socket.terminate()
  },
)

test.serial('a transcription by a model that the key may use is kept, also by one without a price', async t => {
  const key = await world.gateway.key(account.organisationId, 'live', { model_allowlist: [openai, writes] })
  const session = await talk(world, key, openai)
  const settings = [...transcribedBy(writes), ...transcribedBy('whisper-next')]
  for (const one of settings) await pass(session, update(one))
  t.deepEqual(
    settingsIn(session).map(({ session }) => session),
    settings,
  )
  session.socket.terminate()
})

test.serial('403 for a session that only writes down by a model that its key may not use', async t => {
  const key = await world.gateway.key(account.organisationId, 'live', { model_allowlist: [openai] })
  const session = await talk(world, key, openai)
  const [current, beta] = transcribedBy(writes)
  session.socket.send(update({ type: 'transcription', ...current }))
  session.socket.send(json({ type: 'transcription_session.update', session: beta }))
  await pass(session, update({ voice: 'marin' }))
  t.is(settingsIn(session).length, 1)
  await eventually(() => session.events.length === 2, 'both frames are answered')
  t.deepEqual(
    session.events.map(({ error }) => [error.code, error.param]),
    [
      ['model_not_allowed', 'session.audio.input.transcription.model'],
      ['model_not_allowed', 'session.input_audio_transcription.model'],
    ],
  )
  session.socket.terminate()
})

test.serial('a client secret’s transcription by a model that its key may not use is turned off', async t => {
  const key = await world.gateway.key(account.organisationId, 'live', { model_allowlist: [openai] })
  const [settings] = transcribedBy(writes)
  const body = { session: { type: 'realtime', model: openai, ...settings } }
  const answer = await world.gateway.fetch('/v1/realtime/client_secrets', { key, body })
  const { value } = (await answer.json()) as { value: string }
  const session = await talk(world, value, openai)
  await eventually(() => settingsIn(session).length > 0, 'its settings came')
  t.deepEqual(settingsIn(session), [
    { type: 'session.update', session: { type: 'realtime', ...transcribedBy(null)[0] } },
  ])
  session.socket.terminate()
})

/** What the provider has received of a session's settings. */
const settingsIn = ({ provider }: Talk) => provider.events.filter(({ type }) => type === 'session.update')

/** Sends a frame and waits until the provider has it. */
async function pass({ socket, provider }: Talk, frame: string | Buffer): Promise<void> {
  const count = provider.frames.length + 1
  socket.send(frame)
  await eventually(() => provider.frames.length === count, `${String(frame).slice(0, 200)} came`)
}

const taken: Record<string, (string | Buffer)[]> = {
  [openai]: [
    update({ type: 'realtime', tools: [call, { ...call, name: 'tools' }], tool_choice: 'auto' }),
    respond({ tools: [], tool_choice: { type: 'function', name: 'look_up' }, prompt: null, metadata: { tools: '1' } }),
    update({ type: 'transcription', audio: { input: { transcription: { model: 'whisper-1', prompt: 'Names.' } } } }),
    json({ type: 'conversation.item.create', item: { type: 'mcp_approval_response', approve: true } }),
    '{"type":"conversation.item.create","item":{"content":[{"text":"caf\\u00e9, \\\\u0074ools, \\"tools\\": \\u0041"}]}}',
    '{"type":"input_audio_buffer.append","audio":"\\/\\/8="}',
    '{"type":"session.update",',
  ],
  [live]: [
    json({ type: 'session.start', session: { model: live, ...delegating([call]) } }),
    update({ delegation: { type: 'responses', responses: { tools: null, tool_choice: 'none' } } }),
    update(delegating([{ ...call, model: 'gpt-99' }], { model: 'gpt-5-2025-08-07', service_tier: 'flex' })),
    json({ type: 'response.item.create', item: { type: 'function_call_output', output: '{"tools":["web_search"]}' } }),
  ],
  [xai]: [
    update({ tools: [call], replace: { tools: 'tulz' } }),
    Buffer.from([0xff, 0x7b, 0x22, 0x5c, 0x75, 0x00, 0x22]),
  ],
}

for (const [model, frames] of Object.entries(taken)) {
  test.serial(
    `101: frames of ${model} with functions, or with the same words elsewhere, pass byte for byte`,
    async t => {
      const session = await talk(world, account.live, model)
      await session.tell({ type: 'session.started' })
      for (const frame of frames) await pass(session, frame)
      t.deepEqual(
        session.provider.frames.slice(1).map(({ data }) => data.toString()),
        frames.map(String),
      )
      t.is(session.error, undefined)
      session.socket.terminate()
    },
  )
}

test.serial('101: traces, which agents request by default, are left out of the settings of a session', async t => {
  const session = await talk(world, account.live, openai)
  for (const tracing of ['auto', { workflow_name: 'w', group_id: 'g' }, null])
    await pass(session, update({ type: 'realtime', tracing, tool_choice: 'auto' }))
  const sent = session.provider.frames.slice(1).map(({ data }) => data.toString())
  t.deepEqual(sent, Array(3).fill(update({ type: 'realtime', tool_choice: 'auto' })))
  t.is(session.error, undefined)
  session.socket.terminate()
})

test.serial('400 in a session that only writes down, and with a test key', async t => {
  for (const [key, query] of [
    [account.live, 'intent=transcription'],
    [account.test, `model=${live}`],
  ] as const) {
    const { client } = await openSession({ gateway: world.gateway, provider: world.provider, live: key }, { query })
    client.socket.send(update({ type: 'transcription', tools: [{ type: 'mcp' }] }))
    const error = () => client.events.find(({ type }) => type === 'error')?.error
    await eventually(() => error() !== undefined, 'it is refused')
    t.like(error(), { code: hosted, param: 'session.tools' })
    client.socket.terminate()
  }
  t.deepEqual(world.provider.last.frames, [])
})

test.serial('4400 for more of such frames at once than may be parsed; a refused one counts as a kilobyte', async t => {
  const large = await talk(world, account.live, openai)
  const filler = update({ tools: [], instructions: 'x'.repeat(1_500_000) })
  for (let i = 0; i < 3; i++) large.socket.send(filler)
  t.deepEqual(await large.end(), { code: 4400, error: 'invalid_request' })
  t.regex(large.error.message, /4 MiB/)

  const many = await talk(world, account.live, openai)
  const startedMs = performance.now()
  // So many that a slow machine does not read them as fast as they are allowed.
  for (let i = 0; i < 20_000; i++) many.socket.send('{"tools":[1]}')
  t.deepEqual(await many.end(), { code: 4400, error: 'invalid_request' })
  // 4 MiB at once, and 64 KiB more after each second.
  const seconds = Math.ceil((performance.now() - startedMs) / 1_000)
  t.true(many.events.length < 4_096 + 64 * (seconds + 1))
})

const secrets: [what: string, session: object, param: string | null][] = [
  ['a search', { model: openai, tools: [call, { type: 'web_search' }] }, 'session.tools'],
  ['an MCP server, without a model', { tools: [{ type: 'mcp', server_url: 'https://x.example' }] }, 'session.tools'],
  ['a stored prompt', { type: 'transcription', prompt: { id: 'pmpt_1' } }, 'session.prompt'],
  ['functions', { model: openai, tools: [call] }, null],
]

for (const [what, session, param] of secrets) {
  test.serial(`${param ? 400 : 200} for a client secret whose settings name ${what}`, async t => {
    const body = { session }
    const response = await world.gateway.fetch('/v1/realtime/client_secrets', { key: account.live, body })
    t.is(response.status, param ? 400 : 200)
    const { error } = (await response.json()) as { error?: object }
    if (param) t.like(error, { code: hosted, param })
  })
}

test.serial('what the models of sessions alone write down is charged at their own price by length', async t => {
  const speaker = await world.gateway.account()
  const session = await talk(world, speaker.live, openai)
  for (const model of ['gpt-live-transcribe', 'gpt-realtime-whisper', 'gpt-transcribe']) {
    const input = { transcription: { model } }
    await session.tell({ type: 'session.updated', session: { type: 'realtime', audio: { input } } })
    await session.tell({ type: 'input_audio_buffer.committed', item_id: model })
    const usage = { type: 'duration', seconds: 60 }
    await session.tell({ type: 'conversation.item.input_audio_transcription.completed', item_id: model, usage })
  }
  await session.leave()
  t.is(await spentNano(world, speaker), 2 * minutesNano(60, '0.017') + minutesNano(60, '0.0045'))
})
