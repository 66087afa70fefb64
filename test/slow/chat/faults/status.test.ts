import { type Reply, reset } from '../../../emulators/emulator.ts'
import {
  contentPolicy,
  contextLength,
  failure,
  insufficientQuota,
  modelNotFound,
  rateLimited,
  serverError,
} from '../../../emulators/openai.ts'
import { examine, type Fault, type Outcome, titleOf, useFaults } from '../../../support/chat/fault-cases.ts'
import { bytes } from '../../../support/chat/fault-replies.ts'
import { upstreamSecret } from '../../../support/chat/faults.ts'
import { test } from '../../../support/test.ts'

/** An error whose message only the operator may read. */
const told = `Key ${upstreamSecret} failed at http://127.0.0.1/v1.`
const answers = (status: number, headers = {}) => failure(status, told, 'server_error', null, headers)
const passing = (reason: string, status: number | null = null): Outcome => ({ is: 'passing', reason, status })
const lasting = (reason: string, status: number | null = null): Outcome => ({ is: 'lasting', reason, status })
const redirect = (status: number): Reply => bytes(status, 'text/html', told, { location: '/v1/elsewhere' })
const giant = bytes(500, 'application/json', JSON.stringify({ error: { message: 'x'.repeat(5_000_000) } }))
const page = `<html><body>${told}</body></html>`

const faults: Fault[] = [
  { title: '429 without Retry-After', reply: answers(429), outcome: passing('rate_limited', 429) },
  {
    title: '429 with Retry-After: 1',
    reply: rateLimited('1'),
    outcome: { is: 'passing', reason: 'rate_limited', status: 429, retryAfter: '1' },
  },
  {
    title: '429 with Retry-After: 300',
    reply: rateLimited('300'),
    outcome: { is: 'lasting', reason: 'rate_limited', status: 429, retryAfter: '300' },
  },
  { title: '500', reply: serverError, outcome: passing('server_error', 500) },
  { title: '502 with a page of HTML', reply: bytes(502, 'text/html', page), outcome: passing('server_error', 502) },
  { title: '503', reply: answers(503), outcome: passing('overloaded', 503) },
  {
    title: '503 with Retry-After: 1',
    reply: answers(503, { 'retry-after': '1' }),
    outcome: { is: 'passing', reason: 'overloaded', status: 503, retryAfter: '1' },
  },
  {
    title: '503 with Retry-After: 300',
    reply: answers(503, { 'retry-after': '300' }),
    outcome: { is: 'lasting', reason: 'overloaded', status: 503, retryAfter: '300' },
  },
  { title: '504', reply: answers(504), outcome: passing('server_error', 504) },
  { title: '529', reply: answers(529), outcome: passing('overloaded', 529) },
  { title: '408', reply: answers(408), outcome: passing('server_error', 408) },
  { title: '409', reply: answers(409), outcome: passing('server_error', 409) },
  { title: '425', reply: answers(425), outcome: passing('server_error', 425) },
  { title: '500 with a body of 5 MB', reply: giant, outcome: passing('server_error', 500) },
  { title: '302', reply: redirect(302), outcome: { is: 'lasting', reason: 'invalid_response', status: 302 } },
  { title: '307', reply: redirect(307), outcome: { is: 'lasting', reason: 'invalid_response', status: 307 } },
  { title: 'connection reset before the head', reply: reset, outcome: passing('connection') },
  { title: 'connection refused', reply: reset, outcome: passing('connection'), provider: 'refusing' },
  { title: 'connection reset at once', reply: reset, outcome: passing('connection'), provider: 'resetting' },
  {
    title: '401',
    reply: failure(401, told, 'invalid_request_error', 'invalid_api_key'),
    outcome: lasting('auth', 401),
  },
  { title: '403', reply: answers(403), outcome: lasting('auth', 403) },
  { title: '402', reply: answers(402), outcome: lasting('quota', 402) },
  { title: '429 for a quota that is used up', reply: insufficientQuota, outcome: lasting('quota', 429) },
  { title: '404', reply: modelNotFound, outcome: lasting('model_unavailable', 404) },
  {
    title: '405',
    reply: bytes(405, 'application/json', '{"detail":"Method Not Allowed"}'),
    outcome: lasting('model_unavailable', 405),
  },
  {
    title: '410 with a page of HTML',
    reply: bytes(410, 'text/html', page),
    outcome: lasting('model_unavailable', 410),
  },
  {
    title: '451 with a page of HTML',
    reply: bytes(451, 'text/html', page),
    outcome: lasting('model_unavailable', 451),
  },
  { title: '499', reply: answers(499), outcome: passing('server_error', 499) },
  {
    title: '400 for the context length',
    reply: contextLength,
    outcome: {
      is: 'refusal',
      code: 'context_length_exceeded',
      message: /^This model's maximum context length is \d+ tokens\. .* Your input is too long\.$/,
    },
  },
  {
    title: '400 for the content',
    reply: contentPolicy,
    outcome: { is: 'refusal', code: 'invalid_request', message: /^Not allowed\.$/ },
  },
  {
    title: '422',
    reply: failure(422, 'The image is broken.', 'invalid_request_error', null),
    outcome: { is: 'refusal', code: 'invalid_request', message: /^The image is broken\.$/ },
  },
]

const { cases, world } = useFaults(test, faults)

for (const one of cases) test(titleOf(one), t => world.inTurn(() => examine(t, world, one)))

test.after.always('no redirect was followed', t => {
  t.deepEqual(new Set([...world.p1.paths, ...world.p2.paths]), new Set(['/v1/chat/completions']))
})
