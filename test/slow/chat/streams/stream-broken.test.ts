import { framed, type Reply } from '../../../emulators/emulator.ts'
import { piece } from '../../../emulators/gemini.ts'
import { chatChunk } from '../../../emulators/openai.ts'
import { chargedNano, dataOf, expectedNano, generationOf, startWorld } from '../../../support/chat/gateway.ts'
import {
  answers,
  contentOf,
  counts,
  type Dialect,
  finishesOf,
  models,
  type Payloads,
  readStream,
} from '../../../support/chat/streams.ts'
import { type ExecutionContext, test } from '../../../support/test.ts'
import { use } from '../../../support/use.ts'

/** The key of what is asked only to close circuits. */
let healer: string
const world = use(test, startWorld)
test.before(async () => {
  healer = (await world.gateway.account()).live
})

const texts = ['Once upon', ' a 🚀 time']
const good = texts.join('')
const dialects = Object.keys(answers) as Dialect[]
/** The beginning of an answer in each dialect, up to its last text. */
const beginnings: Record<Dialect, Payloads> = {
  openai: answers.openai(texts).slice(0, -3),
  anthropic: answers.anthropic(texts).slice(0, -3),
  gemini: texts.map(text => piece(text)),
}

/** Written after a good beginning, or instead of it, and how the connection ends then. */
type Fault = [title: string, text: string | Buffer, code: 'upstream_error' | 'upstream_invalid_response', end?: 'cut']

const broken = 'upstream_error'
const nonsense = 'upstream_invalid_response'
const html = '<html>\n<body style="color: red">\n<h1>502 Bad Gateway</h1>\n\n</body>\n</html>\n\n'
const garbage: Fault[] = [
  ['a page of HTML', html, nonsense],
  ['HTML in an event', framed([html]), nonsense],
  ['half a JSON document', framed(['{"choices":[{"index":0,"delta":{"content":"x']), nonsense],
  ['two JSON documents in an event', framed(['{"a":1}{"b":2}']), nonsense],
  ...['42', '"x"', '[]', 'true', '[[{}]]'].map((json): Fault => [json, framed([json]), nonsense]),
  ['a line without a field', 'retry 10\n\n', nonsense],
  ['an event beyond the cap', Buffer.alloc(33 * 1024 * 1024, 'data: x'), nonsense],
]
/** Keeps a connection open before servers of OpenAI's dialect: what is missing is the end. */
const blanks = (code: Fault[2]) => ['{}', 'null'].map((json): Fault => [json, framed([json]), code])
const faults: Record<Dialect, Fault[]> = {
  openai: [
    ...blanks(broken),
    ['an error instead of choices', framed([{ error: { message: 'Oops', type: 'server_error' } }]), broken],
    [
      'an error beside choices',
      framed([{ ...chatChunk({ content: '' }, 'error'), error: { code: 502, message: 'Oops' } }]),
      broken,
    ],
    ['an error as a text', framed([{ error: 'Oops' }]), broken],
    ['an event called error', `event: error\n${framed([{ message: 'Oops' }])}`, broken],
    ['an object that is an error', framed([{ object: 'error', message: 'Oops', code: 500 }]), broken],
    ['an error without an event', '{"error": {"message": "Oops",\n "code": 502}}\n\n', broken],
    ['the finish reason error', framed([chatChunk({}, 'error')]), broken],
    ['the finish reason of a server out of resources', framed([chatChunk({}, 'insufficient_system_resource')]), broken],
    [
      'a message that is a text',
      framed([{ choices: [{ index: 0, message: 'x', finish_reason: 'stop' }] }, '[DONE]']),
      nonsense,
    ],
    ['a text completion', framed([{ choices: [{ index: 0, text: 'x', finish_reason: null }] }]), nonsense],
    ['choices that are no objects', framed([{ choices: [1] }]), nonsense],
    ['choices that say nothing', framed([{ choices: [{}] }]), nonsense],
    ['choices that are no list', framed([{ object: 'chat.completion.chunk', choices: {} }]), nonsense],
    ['a message instead of a chunk', framed([{ message: 'Not found', id: 'x' }]), nonsense],
    ['garbage after the finish', framed([chatChunk({}, 'stop')]) + html, nonsense],
  ],
  anthropic: [
    ...blanks(nonsense),
    ['an error', framed([{ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }]), broken],
    ['an error without an event', '{"type":"error","error":{"type":"api_error","message":"Oops"}}\n\n', broken],
    ['the stop without a reason', framed([{ type: 'message_stop' }]), nonsense],
    [
      'a delta without text',
      framed([{ type: 'content_block_delta', index: 0, delta: { type: 'text_delta' } }]),
      nonsense,
    ],
  ],
  gemini: [
    ...blanks(nonsense),
    ['an error', framed([{ error: { code: 503, message: 'Busy', status: 'UNAVAILABLE' } }]), broken],
    ['an error without an event', '{\n"error": {"code": 500, "message": "Oops"}\n}\n\n', broken],
    ['candidates that are none', framed([{ candidates: 'x' }]), nonsense],
    ['a text that is none', framed([{ candidates: [{ content: { parts: [{ text: 1 }] } }] }]), nonsense],
  ],
}
const ends: Fault[] = [
  ['closed without a terminator', '', broken],
  ['closed in the middle of an event', 'data: {"choices":[{"ind', broken],
  ['connection reset', '', broken, 'cut'],
  ['connection reset in the middle of an event', 'data: {"choices":[{"ind', broken, 'cut'],
]

/** Begins an answer, if it does, and goes wrong `when` the client has that beginning. */
function breaking(payloads: Payloads, [, text, , end]: Fault, when?: Promise<void>): Reply {
  return async (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(framed(payloads))
    await when
    response.write(text)
    if (end === 'cut') response.socket?.resetAndDestroy()
    else response.end()
  }
}

/** A good answer before every two failures: three in a row would open the circuit. */
async function heal(dialect: Dialect): Promise<void> {
  const { error } = await readStream(world, healer, dialect)
  if (error) throw error
}

async function checkBroken(t: ExecutionContext, dialect: Dialect, fault: Fault) {
  await heal(dialect)
  const { promise: received, resolve } = Promise.withResolvers<void>()
  world[dialect].next(breaking(beginnings[dialect], fault, received))
  const account = await world.gateway.account()
  const { text, headers, chunks, error } = await readStream(world, account.live, dialect, {}, chunks => {
    if (contentOf(chunks) === good) resolve()
  })
  const [, , code] = fault
  t.like(error, { code, type: 'server_error' })
  t.is(contentOf(chunks), good)
  t.deepEqual(finishesOf(chunks), [])
  const data = dataOf(text)
  t.is(data.filter(one => one.error).length, 1)
  t.like(data.at(-1), { error: { code }, choices: [{ index: 0, delta: {}, finish_reason: 'error' }] })
  t.false(text.includes('<html') || text.includes('[DONE]'))
  const row = await generationOf(world, headers.get('x-generation-id')!)
  t.like(row, { errorCode: code, finishReason: 'error', status: 502, estimated: true })
  const charged = await chargedNano(world, account)
  t.is(charged, Number(row.costNano))
  t.true(charged > 0 && charged < expectedNano(models[dialect], { ...counts, prompt_tokens: 30 }), String(charged))
}

async function checkOther(t: ExecutionContext, dialect: Dialect, fault: Fault) {
  world[dialect].next(breaking([], fault))
  const account = await world.gateway.account()
  const more = { provider: { order: [dialect, 'openrouter'] } }
  const { text, headers, chunks, error } = await readStream(world, account.live, dialect, more)
  t.is(error, null)
  t.is(headers.get('x-gateway-provider'), 'openrouter')
  t.is(headers.get('x-gateway-attempts'), '2')
  t.is(contentOf(chunks), 'Echo: Tell me a story')
  t.deepEqual(finishesOf(chunks), ['stop'])
  t.false(text.includes('<html') || text.includes('"error"'))
  const { usage } = chunks.at(-1)!
  t.is(await chargedNano(world, account), expectedNano(models[dialect], usage!, { provider: 'openrouter' }))
}

for (const dialect of dialects) {
  for (const fault of [...garbage, ...faults[dialect], ...ends]) {
    const [title] = fault
    test.serial(`200, then one error event, billed as delivered, ${dialect}: ${title}`, t =>
      checkBroken(t, dialect, fault),
    )
    test.serial(`200 from another provider, ${dialect} before the first piece: ${title}`, t =>
      checkOther(t, dialect, fault),
    )
  }
}

test.serial('200, then one error event, billed as delivered, openai: a whole message', t => {
  const text = framed([{ choices: [{ index: 0, message: { content: 'x' }, finish_reason: 'stop' }] }, '[DONE]'])
  return checkBroken(t, 'openai', ['', text, nonsense])
})

for (const payloads of [['[DONE]'], [{ ...chatChunk({}), choices: [], usage: counts }, '[DONE]']]) {
  test.serial(`200 from another provider, openai: an end without a beginning (${payloads.length})`, async t => {
    await heal('openai')
    await checkOther(t, 'openai', ['', framed(payloads), nonsense])
  })
}

test.serial('200, then one error event: of two choices, one never finished', async t => {
  const of = (index: number, chunk: object) => ({
    ...chunk,
    choices: [{ ...(chunk as { choices: object[] }).choices[0], index }],
  })
  const both = [0, 1].flatMap(index => beginnings.openai.map(chunk => of(index, chunk as object)))
  for (const last of [[], ['[DONE]']]) {
    await heal('openai')
    world.openai.next(breaking([...both, of(1, chatChunk({}, 'stop'))], ['', framed(last), broken]))
    const { live } = await world.gateway.account()
    const { text, error } = await readStream(world, live, 'openai', { n: 2 })
    t.like(error, { code: 'upstream_error' })
    t.false(text.includes('[DONE]'))
  }
})
