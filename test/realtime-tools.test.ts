import test from 'ava'
import { type Account, eventually, freshStores, type Stores } from './support/gateway.ts'
import { minutesNano } from './support/realtime-talks.ts'
import { type SessionWorld, spentNano, startSessions, type Talk, talk } from './support/sessions.ts'

const openai = 'gpt-realtime-2.1'
const live = 'gpt-live-1'
const xai = 'grok-voice'

let stores: Stores
let world: SessionWorld
let account: Account

test.before(async () => {
  stores = await freshStores()
  world = await startSessions(stores)
  account = await world.gateway.account()
})
test.after.always(async () => {
  await world?.close()
  await stores?.drop()
})

const json = JSON.stringify
const call = { type: 'function', name: 'look_up', parameters: { properties: { tools: { type: 'web_search' } } } }
const update = (session: object) => json({ type: 'session.update', session })
const delegating = (tools: unknown, more: object = {}) => ({
  delegation: { type: 'responses', responses: { model: 'gpt-5-mini', tools, ...more } },
})

type Refused = [frame: string | Buffer, param: string | null, says: RegExp]

const search = '{"type":"web_search"}'
/** In whatever way a frame may be written, for every model. */
const disguises: Refused[] = [
  [`{"type":"session.update","session":{"t\\u006fols":[${search}]}}`, null, /by escapes/],
  [`{"type":"session.update","session":{"\\u0054OOLS":[${search}]}}`, null, /by escapes/],
  [`{"session":{"tools":[${search}]},"session":{"tools":[]},"type":"session.update"}`, 'session', /twice/],
  [`{"type":"input_audio_buffer.append","audio":"AA","type":"session.update","session":{"tools":[]}}`, 'type', /twice/],
  [`{"type":"session.update","session":{"temperature":NaN,"tools":[${search}]}}`, null, /not valid JSON/],
  [`\ufeff{"type":"session.update","session":{"tools":[${search}]}}`, null, /not valid JSON/],
  [Buffer.from(`{"type":"session.update","session":{"tools":[${search}]}}\xff`, 'latin1'), null, /UTF-8/],
  [Buffer.from(`{"type":"session.update","session":{"tools":[${search}]}}`), 'session.tools', /web_search/],
  [`{"type":"session.update","session":{"Tools":[${search}]}}`, 'session.Tools', /web_search/],
  [`{"type":"session.update","session":{"tools":[{"type":"web\\u005fsearch"}]}}`, 'session.tools', /web_search/],
  [update({ tools: { type: 'web_search' } }), 'session.tools', /web_search/],
  [update({ tools: [call, 'web_search'] }), 'session.tools', /function/],
  [update({ tools: [null] }), 'session.tools', /function/],
  [update({ tools: [{ type: ['function'] }] }), 'session.tools', /function/],
  [json({ type: 'response.create', tools: [{ type: 'x_search' }] }), 'tools', /x_search/],
]

const refused: [model: string, frames: Refused[]][] = [
  [
    openai,
    [
      ...disguises,
      [
        update({ type: 'realtime', tools: [call, { type: 'mcp', server_url: 'https://x.example' }] }),
        'session.tools',
        /mcp/,
      ],
      [
        json({ type: 'response.create', response: { tools: [{ type: 'mcp', connector_id: 'c' }] } }),
        'response.tools',
        /mcp/,
      ],
      [update({ prompt: { id: 'pmpt_1' } }), 'session.prompt', /stored/],
      [
        json({ type: 'response.create', response: { prompt: { id: 'pmpt_1', version: '2' } } }),
        'response.prompt',
        /stored/,
      ],
      [json({ type: 'transcription_session.update', session: { tools: [{ type: 'mcp' }] } }), 'session.tools', /mcp/],
    ],
  ],
  [
    live,
    [
      ...disguises,
      ...['file_search', 'code_interpreter', 'shell', 'mcp', 'image_generation', 'namespace'].map((type): Refused => {
        const session = { model: live, ...delegating([call, { type, vector_store_ids: ['vs_1'] }]) }
        return [json({ type: 'session.start', session }), 'session.delegation.responses.tools', new RegExp(type)]
      }),
      [update(delegating([{ type: 'web_search' }])), 'session.delegation.responses.tools', /web_search/],
      [
        update(delegating([], { tool_choice: { type: 'allowed_tools', tools: [{ type: 'file_search' }] } })),
        'session.delegation.responses.tool_choice.tools',
        /file_search/,
      ],
      [
        json({
          type: 'response.item.create',
          item: { type: 'additional_tools', tools: [{ type: 'code_interpreter' }] },
        }),
        'item.tools',
        /code_interpreter/,
      ],
      [
        json({ type: 'response.create', response: { input: [{ tools: [{ type: 'mcp' }] }] } }),
        'response.input.0.tools',
        /mcp/,
      ],
    ],
  ],
  [
    xai,
    [
      ...disguises,
      ...['web_search', 'x_search', 'file_search', 'collections_search', 'mcp'].map((type): Refused => {
        return [update({ tools: [{ type, vector_store_ids: ['collection_1'] }] }), 'session.tools', new RegExp(type)]
      }),
    ],
  ],
]

for (const [model, frames] of refused) {
  test(`400 for each frame that names tools of the provider’s, of which it hears nothing, and ${model} goes on`, async t => {
    const session = await talk(world, account.live, model)
    for (const [frame] of frames) session.socket.send(frame)
    await passes(session, '{"type":"input_audio_buffer.commit"}')
    t.deepEqual(
      session.provider.events.map(({ type }) => type),
      ['mark', 'input_audio_buffer.commit'],
    )
    t.is(session.events.length, frames.length)
    for (const [index, [frame, param, says]] of frames.entries()) {
      const { type, event_id: eventId, error } = session.events[index]
      t.is(type, 'error')
      t.is(typeof eventId, 'string')
      t.is(error.code, says.source.includes(' ') || /twice|UTF/.test(says.source) ? 'invalid_json' : errorCode(says))
      t.is(error.type, 'invalid_request_error')
      t.is(error.param ?? null, param, String(frame))
      t.regex(error.message, says)
    }
    session.socket.terminate()
  })
}

/** Waits until the provider has heard a frame. */
async function passes({ socket, provider }: Talk, frame: string | Buffer): Promise<void> {
  const before = provider.frames.length
  socket.send(frame)
  await eventually(() => provider.frames.length > before, `${frame} came`)
}
