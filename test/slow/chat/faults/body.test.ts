import { events } from '../../../emulators/emulator.ts'
import { examine, type Fault, type Outcome, titleOf, useFaults } from '../../../support/chat/fault-cases.ts'
import {
  beginning,
  begins,
  begun,
  bytes,
  chunk,
  drip,
  eventsOf,
  halfBody,
  jsonOf,
  whole,
} from '../../../support/chat/fault-replies.ts'
import { upstreamSecret } from '../../../support/chat/faults.ts'
import { test } from '../../../support/test.ts'

const page = '<!doctype html>\n\n<html><body>It works!</body></html>\n\n'
const told = `Key ${upstreamSecret} failed at http://127.0.0.1/v1.`
const reported = JSON.stringify({ error: { code: 502, message: told, metadata: { provider_name: 'Somebody' } } })
const malformed = 'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"st\n\n'
const half = jsonOf('p1').slice(0, 90)
const sse = 'text/event-stream'
const jsonType = 'application/json'

const nonsense: Outcome = { is: 'lasting', reason: 'invalid_response', status: null }
const nonsense200: Outcome = { is: 'lasting', reason: 'invalid_response', status: 200 }
const passing = (reason: string, status: number | null = null): Outcome => ({ is: 'passing', reason, status })
const answer: Outcome = { is: 'answer' }
const broken = (reason: string, code: string): Outcome => ({ is: 'broken', reason, code, text: beginning.text })

/** What a whole answer may be instead. */
const wholes: Fault[] = [
  { title: 'connection reset within the body', reply: halfBody, outcome: passing('connection') },
  { title: 'half a JSON document', reply: bytes(200, jsonType, half), outcome: nonsense200 },
  { title: 'a page of HTML with status 200', reply: bytes(200, 'text/html', page), outcome: nonsense200 },
  { title: 'an empty body', reply: bytes(200, jsonType, ''), outcome: nonsense200 },
  // Some servers stream whatever is asked for.
  { title: 'events instead of JSON', reply: bytes(200, sse, eventsOf('p1')), outcome: answer },
  { title: 'JSON without choices', reply: bytes(200, jsonType, '{"object":"list","data":[]}'), outcome: nonsense },
  { title: 'an error with status 200', reply: bytes(200, jsonType, reported), outcome: passing('server_error', 502) },
]

/** What the begin of a stream may be instead. */
const beginnings: Fault[] = [
  {
    title: 'connection reset after a comment',
    reply: events([': wait\n\n'], { end: 'cut' }),
    outcome: passing('connection'),
  },
  { title: 'stream closed after a comment', reply: events([': wait\n\n']), outcome: nonsense },
  { title: 'a page of HTML with status 200', reply: bytes(200, 'text/html', page), outcome: nonsense },
  { title: 'an empty body', reply: bytes(200, sse, ''), outcome: nonsense },
  { title: 'nothing but [DONE]', reply: events(['data: [DONE]\n\n']), outcome: nonsense },
  { title: 'malformed first chunk', reply: events([malformed]), outcome: nonsense },
  // Some servers do not stream.
  { title: 'JSON instead of events', reply: bytes(200, jsonType, jsonOf('p1')), outcome: answer },
  { title: 'JSON without choices', reply: bytes(200, jsonType, '{"object":"list","data":[]}'), outcome: nonsense },
  { title: 'an error as first event', reply: events([`data: ${reported}\n\n`]), outcome: passing('server_error', 502) },
]

/** How a stream may break off after its first content. */
const ends: Fault[] = [
  { title: 'connection reset', reply: begins([], 'cut'), outcome: broken('connection', 'upstream_error') },
  { title: 'stream closed', reply: begins([]), outcome: broken('truncated', 'upstream_error') },
  {
    title: 'closed within an event',
    reply: begins([chunk({ content: ' a' }).slice(0, 60)]),
    outcome: broken('truncated', 'upstream_error'),
  },
  {
    title: 'malformed chunk',
    reply: begins([malformed]),
    outcome: broken('invalid_response', 'upstream_invalid_response'),
  },
  { title: 'a page of HTML', reply: begins([page]), outcome: broken('invalid_response', 'upstream_invalid_response') },
  {
    title: 'an error event',
    reply: begins([`data: ${reported}\n\n`]),
    outcome: { is: 'broken', reason: 'server_error', code: 'upstream_error', text: beginning.text, status: 502 },
  },
  {
    title: 'finish_reason "error"',
    reply: begins([chunk({}, 'error')]),
    outcome: broken('server_error', 'upstream_error'),
  },
].map(fault => ({ ...fault, title: `${fault.title} after the first content` }) as Fault)

/** A stream that has said nothing yet can still begin anew. */
ends.push({
  title: 'connection reset after a piece without content',
  reply: events([begun[0]!], { intervalMs: 10, end: 'cut' }),
  outcome: { is: 'passing', reason: 'connection', status: null },
})

/** What concerns both. */
const both: Fault[] = [
  { title: 'no usage', reply: whole('p1', { usage: false }), outcome: { is: 'answer', estimated: true } },
  {
    title: 'finish_reason content_filter',
    reply: whole('p1', { finish: 'content_filter' }),
    outcome: { is: 'answer', finish: 'content_filter' },
  },
  { title: 'a wrong content type', reply: whole('p1', { contentType: 'text/plain' }), outcome: answer },
  { title: 'one byte at a time', reply: drip(), outcome: answer },
]

const faults: Fault[] = [
  ...wholes.map(fault => ({ ...fault, only: 'whole' }) as const),
  ...[...beginnings, ...ends].map(fault => ({ ...fault, only: 'stream' }) as const),
  { title: '[DONE] missing', reply: whole('p1', { done: false }), outcome: answer, only: 'stream' },
  ...both,
]

const { cases, world } = useFaults(test, faults)

for (const one of cases) test(titleOf(one), t => world.inTurn(() => examine(t, world, one)))
