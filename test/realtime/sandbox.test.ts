import { eventually } from '../support/gateway.ts'
import {
  joined,
  model,
  openSandbox,
  orderOf,
  pcmBytesPerSecond,
  type SandboxTalk,
  typeErrors,
  written,
} from '../support/realtime/sandbox-talk.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const talks: SandboxTalk[] = []

const gateway = useGateway(test)
const account = use(test, () => gateway.account())
test.afterEach.always(() => Promise.all(talks.map(talk => talk.close())))

const open = (query?: string) => openSandbox(gateway, account.test, talks, query)
const textOnly = { output_modalities: ['text'] }

const openingOrder = ['response.created', 'response.output_item.added', 'conversation.item.added']
const endingOrder = ['response.output_item.done', 'conversation.item.done', 'response.done', 'rate_limits.updated']

test.serial('a text is echoed as text, in the order of events that OpenAI has', async t => {
  const talk = await open()
  const [{ session }] = talk.events
  t.like(session, { type: 'realtime', object: 'realtime.session', model, output_modalities: ['audio'] })
  t.regex(session.id, /^sess_/)
  talk.send({ type: 'response.create', response: textOnly })
  t.is(joined(await talk.until('rate_limits.updated'), 'response.output_text.delta'), 'Hello from the sandbox.')

  talk.send(written('Say it  again, Sam!'))
  const [added, done] = await talk.until('conversation.item.done')
  t.deepEqual([added.type, added.item], ['conversation.item.added', done.item])
  const events = await talk.answer({ ...textOnly, metadata: { topic: 'films' } })
  t.deepEqual(orderOf(events), [
    ...openingOrder,
    'response.content_part.added',
    'response.output_text.delta',
    'response.output_text.done',
    'response.content_part.done',
    ...endingOrder,
  ])
  t.is(joined(events, 'response.output_text.delta'), 'Say it  again, Sam!')
  const { response } = events.at(-2)
  t.like(response, { status: 'completed', metadata: { topic: 'films' }, output_modalities: ['text'] })
  t.like(response.output[0], {
    status: 'completed',
    content: [{ type: 'output_text', text: 'Say it  again, Sam!' }],
  })
  t.is(new Set(talk.events.map(({ event_id }) => event_id)).size, talk.events.length)
  t.is(events[2].previous_item_id, done.item.id)
})

test.serial('sound is an item with its transcript as null until it is known', async t => {
  const talk = await open()
  await talk.settings({ audio: { input: { turn_detection: null } } })
  talk.append(Buffer.alloc(pcmBytesPerSecond))
  talk.send({ type: 'input_audio_buffer.commit' })
  const events = await talk.until('conversation.item.done')
  const items = events.filter(({ type }) => type.startsWith('conversation.item.')).map(({ item }) => item)
  t.deepEqual(
    items.map(({ content }) => content),
    Array(2).fill([{ type: 'input_audio', transcript: null }]),
  )
})

test.serial('completed when a response has null for its instructions and metadata', async t => {
  const talk = await open()
  talk.send(written('Hello'))
  const { response } = (await talk.answer({ ...textOnly, instructions: null, metadata: null })).at(-2)
  t.like(response, { status: 'completed', metadata: null })
  t.is(response.output[0].content[0].text, 'Hello')
})

test.serial('ids of calls have at most 32 characters, and longer ids are refused', async t => {
  const talk = await open()
  await talk.settings({ ...textOnly, tools: [{ type: 'function', name: 'weather' }] })
  talk.send(written('sandbox:tool'))
  const [call] = (await talk.answer()).at(-2).response.output
  t.true(call.call_id.length <= 32)
  talk.send({ type: 'conversation.item.create', item: { type: 'function_call', name: 'weather', arguments: '{}' } })
  t.true((await talk.next('conversation.item.done')).item.call_id.length <= 32)
  const long = 'i'.repeat(48)
  for (const [name, item] of [
    ['call_id', { type: 'function_call_output', call_id: long, output: '' }],
    ['call_id', { type: 'function_call', name: 'weather', call_id: long, arguments: '{}' }],
    ['id', { ...written('Hello').item, id: long }],
  ] as const) {
    const error = await talk.refused({ type: 'conversation.item.create', item })
    t.is(error.code, 'string_above_max_length')
    t.is(error.param, `item.${name}`)
    const text = `Invalid 'item.${name}': string too long. Expected a string with maximum length 32, but got a string with length 48 instead.`
    t.is(error.message, text)
  }
})

test.serial('a text is spoken as a tone as long as it takes to say', async t => {
  const talk = await open()
  talk.send(written('Thirty characters of a message'))
  await talk.until('conversation.item.done')
  const events = await talk.answer()
  t.deepEqual(
    orderOf(events).filter(type => !type.endsWith('.delta')),
    [
      ...openingOrder,
      'response.content_part.added',
      'response.output_audio.done',
      'response.output_audio_transcript.done',
      'response.content_part.done',
      ...endingOrder,
    ],
  )
  t.is(joined(events, 'response.output_audio_transcript.delta'), 'Thirty characters of a message')
  const { usage } = events.at(-2).response
  t.like(usage.output_token_details, { audio_tokens: 40, text_tokens: 5 })
  t.is(usage.total_tokens, usage.input_tokens + usage.output_tokens)
  const next = await talk.answer()
  t.like(next.at(-2).response.usage.input_token_details, { audio_tokens: 40, text_tokens: usage.input_tokens + 5 })
})

test.serial('settings are merged; those that cannot change are refused', async t => {
  const talk = await open()
  const turn_detection = { type: 'semantic_vad', eagerness: 'high', create_response: true, interrupt_response: false }
  const detected = await talk.settings({
    instructions: 'Be brief.',
    audio: { input: { turn_detection: { type: 'semantic_vad', eagerness: 'high', interrupt_response: false } } },
  })
  t.like(detected, { instructions: 'Be brief.', model, output_modalities: ['audio'] })
  t.deepEqual(detected.audio.input.turn_detection, turn_detection)
  t.deepEqual(detected.audio.input.format, { type: 'audio/pcm', rate: 24_000 })
  const voiced = await talk.settings({ ...textOnly, audio: { output: { voice: 'cedar' } } })
  t.like(voiced, { instructions: 'Be brief.', output_modalities: ['text'] })
  t.like(voiced.audio, { output: { voice: 'cedar', speed: 1 }, input: { turn_detection } })
  const update = (session: object) => ({ type: 'session.update', event_id: 'mine', session })
  t.like(await talk.refused(update({ type: 'realtime', model: 'gpt-realtime-2' })), {
    type: 'invalid_request_error',
    code: 'invalid_value',
    param: 'session.model',
    event_id: 'mine',
  })
  t.like(await talk.refused(update({})), { code: 'missing_required_parameter', param: 'session.type' })
  t.like(await talk.refused(update({ type: 'realtime', temperature: 1 })), {
    code: 'unknown_parameter',
    param: 'session.temperature',
  })
  await talk.answer({ output_modalities: ['audio'] })
  const voice = await talk.refused(update({ type: 'realtime', audio: { output: { voice: 'marin' } } }))
  t.like(voice, { code: 'cannot_update_voice', param: 'session.audio.output.voice' })
  t.is((await talk.settings({ audio: { output: { voice: 'cedar' } } })).audio.output.voice, 'cedar')
})

test.serial('an error event for whatever is no event, and the session goes on', async t => {
  const talk = await open()
  const refusals: [event: object | string, code: string, param: string | null][] = [
    ['{"type"', 'invalid_json', null],
    ['[]', 'invalid_json', null],
    [{}, 'missing_required_parameter', 'type'],
    [{ type: 'response.text.delta' }, 'invalid_value', 'type'],
    [{ type: 'constructor' }, 'invalid_value', 'type'],
    [{ type: { toString: 1 } }, 'invalid_value', 'type'],
    [{ type: 'input_audio_buffer.append' }, 'missing_required_parameter', 'audio'],
    [{ type: 'input_audio_buffer.append', audio: 'a.b,' }, 'invalid_value', 'audio'],
    [{ type: 'input_audio_buffer.commit' }, 'input_audio_buffer_commit_empty', null],
    [{ type: 'output_audio_buffer.clear' }, 'invalid_value', 'type'],
    [{ type: 'response.cancel' }, 'response_cancel_not_active', 'response_id'],
    [{ type: 'conversation.item.retrieve', item_id: 'no' }, 'item_retrieve_invalid_item_id', 'item_id'],
    [{ type: 'conversation.item.delete', item_id: 'no' }, 'item_delete_invalid_item_id', 'item_id'],
    [
      { type: 'conversation.item.truncate', item_id: 'no', content_index: 0, audio_end_ms: 0 },
      'item_truncate_invalid_item_id',
      'item_id',
    ],
    [written('Hi', { previous_item_id: 'no' }), 'item_create_invalid_previous_item_id', 'previous_item_id'],
    [
      {
        type: 'conversation.item.create',
        item: { type: 'function_call_output', call_id: 'no', output: '' },
      },
      'invalid_tool_call_id',
      'item.call_id',
    ],
    [{ type: 'response.create', response: { tool_choice: { type: 'function', name: 'no' } } }, 'invalid_value', null],
    [{ type: 'response.create', response: { max_output_tokens: 0 } }, 'invalid_value', null],
  ]
  for (const [event, code, param] of refusals) {
    const error = await talk.refused(event)
    t.like(error, { type: 'invalid_request_error', code }, JSON.stringify(event))
    if (param !== null) t.is(error.param, param)
  }
  t.is((await talk.refused({ type: 'no', event_id: 'event 7' })).event_id, 'event 7')
  talk.socket.send(Buffer.from('{"type":"response.create"}'))
  t.is((await talk.next('error')).error.code, 'invalid_json')
  t.is((await talk.answer(textOnly)).at(-2).response.status, 'completed')
})

test.serial('items are put in their place, told, deleted, and forgotten from the oldest on', async t => {
  const talk = await open()
  const item = (id: string) => ({ id, type: 'message', role: 'user', content: [{ type: 'input_text', text: id }] })
  const create = async (id: string, previous_item_id?: string) => {
    talk.send({ type: 'conversation.item.create', item: item(id), ...(previous_item_id && { previous_item_id }) })
    return (await talk.next('conversation.item.done')).previous_item_id
  }
  t.is(await create('b'), null)
  t.is(await create('d'), 'b')
  t.is(await create('a', 'root'), null)
  t.is(await create('c', 'b'), 'b')
  t.is((await talk.refused({ type: 'conversation.item.create', item: item('c') })).param, 'item.id')
  talk.send({ type: 'conversation.item.retrieve', item_id: 'c' })
  t.like((await talk.next('conversation.item.retrieved')).item, { ...item('c'), status: 'completed' })
  talk.send({ type: 'conversation.item.delete', item_id: 'd' })
  t.is((await talk.next('conversation.item.deleted')).item_id, 'd')
  t.is(joined(await talk.answer(textOnly), 'response.output_text.delta'), 'c')
  for (let i = 0; i < 200; i++) talk.send({ type: 'conversation.item.create', item: item(`item_${i}`) })
  const gone = (await talk.until('conversation.item.deleted')).at(-1)
  t.is(gone.item_id, 'a')
})

test.serial('a response of its own input stays out of the conversation, beside one that is in it', async t => {
  const talk = await open()
  await talk.settings(textOnly)
  talk.send(written('sandbox:timeout'), { type: 'response.create' })
  const { response } = await talk.next('response.created')
  t.regex(response.conversation_id, /^conv_/)
  const again = await talk.refused({ type: 'response.create' })
  t.is(again.code, 'conversation_already_has_active_response')
  talk.send(written('From before', { item: { ...written('From before').item, id: 'before' } }))
  await talk.until('conversation.item.done')
  const input = [{ type: 'item_reference', id: 'before' }]
  const events = await talk.answer({ conversation: 'none', input, instructions: '' })
  t.false(events.some(({ type }) => type.startsWith('conversation.')))
  t.is(joined(events, 'response.output_text.delta'), 'From before')
  t.is(events[0].response.conversation_id, undefined)
  talk.send({ type: 'response.cancel' })
  const cancelled = (await talk.next('response.done')).response
  t.like(cancelled, { id: response.id, status: 'cancelled', output: [] })
  t.deepEqual(cancelled.status_details, { type: 'cancelled', reason: 'client_cancelled' })
})

test.serial('a response fails, or comes slowly and can be cancelled, as the magic words ask', async t => {
  const talk = await open()
  for (const [word, code] of [
    ['fail', 'server_error'],
    ['rate_limit', 'rate_limit_exceeded'],
  ]) {
    talk.send(written(`Please sandbox:${word}`))
    const { response } = (await talk.answer()).at(-2)
    t.like(response, { status: 'failed', output: [] })
    t.like(response.status_details, { type: 'failed', error: { code } })
    t.is(response.usage.total_tokens, 0)
  }
  talk.send(written('sandbox:slow=4000 and then some more words'), { type: 'response.create' })
  await talk.until('response.output_audio.delta')
  talk.send({ type: 'response.cancel' })
  const events = await talk.until('rate_limits.updated')
  t.deepEqual(orderOf(events).slice(-7), [
    'response.output_audio.done',
    'response.output_audio_transcript.done',
    'response.content_part.done',
    'response.output_item.done',
    'conversation.item.done',
    'response.done',
    'rate_limits.updated',
  ])
  const { response } = events.at(-2)
  t.is(response.output[0].status, 'incomplete')
  t.is(response.usage.output_token_details.audio_tokens % 4, 0, 'whole pieces of a fifth of a second')
  t.is(events.find(({ type }) => type.endsWith('transcript.done')).transcript, response.output[0].content[0].transcript)
})

test.serial('a response ends where it has no more tokens', async t => {
  const talk = await open()
  talk.send(written('one two three four five six'))
  const { response } = (await talk.answer({ ...textOnly, max_output_tokens: 3 })).at(-2)
  t.like(response, { status: 'incomplete', status_details: { reason: 'max_output_tokens' } })
  t.is(response.output[0].content[0].text, 'one two three')
  t.is(response.usage.output_tokens, 3)
})

const parameters = {
  type: 'object',
  properties: { city: { type: 'string', minLength: 2 }, days: { type: 'integer', minimum: 3 } },
  required: ['city', 'days'],
}
const tools = [
  { type: 'function', name: 'time' },
  { type: 'function', name: 'weather', parameters },
]

test.serial(
  'a tool is called where the settings force one or the text asks for it, then its output is taken',
  async t => {
    const talk = await open()
    await talk.settings({ ...textOnly, tools })
    talk.send(written('What is the weather?'))
    await talk.until('conversation.item.done')
    const events = await talk.answer({ tool_choice: { type: 'function', name: 'weather' } })
    t.deepEqual(orderOf(events), [
      ...openingOrder,
      'response.function_call_arguments.delta',
      'response.function_call_arguments.done',
      ...endingOrder,
    ])
    const call = events.at(-2).response.output[0]
    t.like(call, { type: 'function_call', name: 'weather', status: 'completed' })
    t.is(joined(events, 'response.function_call_arguments.delta'), call.arguments)
    const { city, days } = JSON.parse(call.arguments)
    t.true(city.length >= 2 && days >= 3)
    talk.send({
      type: 'conversation.item.create',
      item: { type: 'function_call_output', call_id: call.call_id, output: '{"sun":true}' },
    })
    t.like((await talk.next('conversation.item.done')).item, { type: 'function_call_output', status: 'completed' })
    const answer = await talk.answer()
    t.is(joined(answer, 'response.output_text.delta'), 'What is the weather?')
    t.is((await talk.answer({ tool_choice: 'required' })).at(-2).response.output[0].name, 'time')
    talk.send(written('sandbox:tool'))
    t.is((await talk.answer()).at(-2).response.output[0].name, 'time')
  },
)

test.serial('101 without a cent, and what was used is in the request log', async t => {
  const { organisationId, test: key } = await gateway.account()
  const talk = await openSandbox(gateway, key, talks)
  await talk.settings({ ...textOnly, instructions: '' })
  talk.send(written('Hello'))
  t.is((await talk.answer()).at(-2).response.usage.output_tokens, 1)
  await talk.close()
  t.deepEqual(await gateway.settled(), [])
  const { db } = gateway.services
  const where = { organisationId, kind: 'realtime', promptTokens: 1, completionTokens: 1 }
  await eventually(async () => (await db.generation.count({ where })) === 1, 'it is logged')
  t.is(await db.ledgerEntry.count({ where: { organisationId, kind: 'charge' } }), 0)
})

test.serial('every event is one of the SDK’s types, to the letter', async t => {
  t.is(await typeErrors(talks.flatMap(({ events }) => events)), '')
})
