import type { Reply } from '../../emulators/emulator.ts'
import type { Account } from '../gateway.ts'
import type { ExecutionContext, Test } from '../test.ts'
import { use } from '../use.ts'
import { beginning, costNano, type ProviderName, prompt, storyOf, wholeTokens } from './fault-replies.ts'
import {
  type Answer,
  ask,
  bookedOf,
  type FaultModel,
  type FaultWorld,
  paidNano,
  startFaultWorld,
  upstreamSecret,
} from './faults.ts'
import { dataOf } from './gateway.ts'

/** What a fault of the first provider must come to. */
export type Outcome =
  /** It may pass: without another provider the same one is asked again. */
  | { is: 'passing'; reason: string; status: number | null; retryAfter?: string }
  /** It will not pass soon: the same provider is not asked again. */
  | { is: 'lasting'; reason: string; status: number | null; retryAfter?: string }
  /** A fault of the request: no failover. */
  | { is: 'refusal'; code: string; message: RegExp }
  /** It is none: the answer is whole. */
  | { is: 'answer'; finish?: string; estimated?: true }
  /** A fault after the answer has begun: no failover, and the delivered part is charged. */
  | { is: 'broken'; reason: string; code: string; text: string; status?: number }

export type Fault = {
  title: string
  reply: Reply
  outcome: Outcome
  /** Whether it concerns streams, whole answers, or both. */
  only?: 'stream' | 'whole'
  /** A provider that always fails this way, instead of `p1` with `reply`. */
  provider?: 'refusing' | 'resetting'
}

const shapes = {
  two: 'pinned with two providers',
  one: 'pinned with one provider',
  auto: 'auto',
} as const
export type Shape = keyof typeof shapes

/** One fault in one shape. `forGood`: the provider fails so whenever it is asked. */
export type Case = { id: string; fault: Fault; shape: Shape; stream: boolean; forGood: boolean }

/** Every fault, pinned with two providers, with one, and `auto`, whole and streamed. */
function casesOf(faults: readonly Fault[]): Case[] {
  const cases: Case[] = []
  for (const [number, fault] of faults.entries()) {
    for (const stream of [false, true]) {
      if (fault.only && (fault.only === 'stream') !== stream) continue
      const add = (shape: Shape, forGood: boolean) =>
        cases.push({ id: `${number}-${shape}-${stream}-${forGood}`, fault, shape, stream, forGood })
      add('two', false)
      add('auto', false)
      if (!fault.provider) add('one', false)
      if (fault.outcome.is === 'passing') add('one', true)
    }
  }
  return cases
}

/** The models of a case: `auto` would take the first for its quality. */
function modelsOf({ id, shape, fault }: Case): FaultModel[] {
  const first = fault.provider ?? 'p1'
  if (shape === 'one') return [{ id, providers: [first] }]
  if (shape === 'two') return [{ id, providers: [first, 'p2'] }]
  return [
    { id, providers: [first], quality: 95 },
    { id: spareOf(id), providers: ['p2'], quality: 40 },
  ]
}

export function spareOf(id: string): string {
  return `${id}-spare`
}

type CallCounts = { attempts: number; calls: [p1: number, p2: number] }
type Expected = CallCounts &
  (
    | { by: ProviderName; finish: string; estimated: boolean; costNano: number }
    | {
        status: number
        code: string
        failures: number
        reason: string
        upstream: number | null
        retryAfter: string | null
      }
    | { broken: Extract<Outcome, { is: 'broken' }>; costNano: number }
    | { refused: Extract<Outcome, { is: 'refusal' }> }
  )

function expectedOf({ fault, shape, forGood }: Case): Expected {
  const { outcome } = fault
  const whole = (by: ProviderName) => ({ by, finish: 'stop', estimated: false, costNano: costNano(by) })
  const once: CallCounts = { attempts: 1, calls: [1, 0] }
  switch (outcome.is) {
    case 'refusal':
      return { ...once, refused: outcome }
    case 'answer': {
      const { finish = 'stop', estimated = false } = outcome
      const cost = estimated ? costNano('p1', prompt.tokens, wholeTokens) : costNano('p1')
      return { ...once, by: 'p1', finish, estimated, costNano: cost }
    }
    case 'broken': {
      const cost = outcome.text === '' ? 0 : costNano('p1', prompt.tokens, beginning.tokens)
      return { ...once, broken: outcome, costNano: cost }
    }
    default: {
      const { reason, status, retryAfter = null } = outcome
      const seen = fault.provider ? 0 : 1
      // Before it leaves the model, a request gives it one quick retry.
      const isQuick = outcome.is === 'passing' && (reason === 'server_error' || retryAfter === '1')
      if (shape === 'auto' && isQuick) return { attempts: 2, calls: [2, 0], ...whole('p1') }
      if (shape !== 'one') return { attempts: 2, calls: [seen, 1], ...whole('p2') }
      if (outcome.is === 'passing' && !forGood) return { attempts: 2, calls: [2, 0], ...whole('p1') }
      const failures = outcome.is === 'passing' ? 3 : 1
      const told: CallCounts = { attempts: failures, calls: [failures * seen, 0] }
      return { ...told, ...errorOf(reason), failures, reason, upstream: status, retryAfter }
    }
  }
}

function errorOf(reason: string): { status: number; code: string } {
  if (reason === 'timeout') return { status: 504, code: 'upstream_timeout' }
  return { status: 502, code: reason === 'invalid_response' ? 'upstream_invalid_response' : 'upstream_error' }
}

/** The cases of some faults, and a world of the file's own in which each has its models. */
export function useFaults(
  test: Test,
  faults: readonly Fault[],
  env: Record<string, string> = {},
): { cases: Case[]; world: FaultWorld } {
  const cases = casesOf(faults)
  const start = () => startFaultWorld(cases.flatMap(modelsOf), env)
  return { cases, world: use(test, start, (it, t) => it.close(t)) }
}

/** Starts with the status and what becomes of the fault. */
export function titleOf(one: Case): string {
  const { fault, shape, stream, forGood } = one
  return `${fateOf(expectedOf(one))} when ${shapes[shape]}: ${fault.title}${forGood ? ' for good' : ''}${stream ? ' (stream)' : ''}`
}

function fateOf(expected: Expected): string {
  if ('refused' in expected) return '400 passed on'
  if ('broken' in expected) return '200 and then one error event'
  if ('status' in expected)
    return `${expected.status} after ${expected.attempts === 1 ? 'one call' : `${expected.attempts} calls`}`
  if (expected.by === 'p2') return '200 from the second provider'
  return expected.attempts === 1 ? '200 at once' : '200 at the second try'
}

/** Runs a case and checks everything that a client, a provider and the books see of it. */
export async function examine(t: ExecutionContext, world: FaultWorld, one: Case): Promise<void> {
  const { id, fault, shape, stream, forGood } = one
  const { gateway, p1, p2 } = world
  if (!fault.provider && forGood) p1.always(id, fault.reply)
  else if (!fault.provider) p1.next(id, fault.reply)
  const auto = shape === 'auto'
  const policy = auto ? { model_allowlist: [id, spareOf(id)], mode: 'quality' as const } : {}
  const account = await gateway.account(policy)
  if (auto) await isFirstChoice(t, world, account, one)
  const answer = await ask(world, account.live, auto ? 'auto' : id, { stream })
  const expected = expectedOf(one)
  hidesSecrets(t, answer)
  t.is(answer.headers.get('x-gateway-attempts'), String(expected.attempts), answer.text)
  const row = await bookedOf(world, account, answer)
  t.like(row, { attempts: expected.attempts, streamed: stream, requestId: answer.headers.get('x-request-id')! })
  const second = auto ? spareOf(id) : id
  t.deepEqual([p1.calls(id).length, p2.calls(second).length], expected.calls)
  let costNano = 0
  if ('by' in expected) {
    const told = isWhole(t, answer, stream, expected)
    t.like(row, { provider: expected.by, model: expected.by === 'p2' ? second : id, ...told })
    costNano = expected.costNano
  } else if ('broken' in expected) {
    const told = isBroken(t, answer, id, expected.broken)
    t.like(row, { provider: 'p1', model: id, ...told })
    costNano = expected.costNano
  } else {
    const told = 'refused' in expected ? isRefused(t, answer, expected.refused) : isFailed(t, answer, one, expected)
    t.like(row, { provider: fault.provider ?? 'p1', model: id, ...told })
  }
  t.is(Number(row.costNano), costNano)
  t.is(await paidNano(world, account), costNano)
}

async function isFirstChoice(t: ExecutionContext, { gateway }: FaultWorld, { live }: Account, one: Case) {
  const body = { model: 'auto', messages: [{ role: 'user', content: prompt.text }] }
  const decision = await (await gateway.fetch('/v1/route', { key: live, body })).json()
  const provider = one.fault.provider ?? 'p1'
  t.like(decision, { model: one.id, provider, fallbacks: [`${spareOf(one.id)}@p2`] })
}

/** No response to a client may reveal the URL or key of a provider call. */
export function hidesSecrets(t: ExecutionContext, { text, headers }: Answer): void {
  const shown = text + JSON.stringify([...headers])
  for (const secret of [upstreamSecret, '127.0.0.1', 'http:']) t.false(shown.includes(secret), secret)
}

type Whole = { by: ProviderName; finish: string; estimated: boolean; costNano: number }

/** The answer is all of a provider's story, told once, with its cost. */
export function isWhole(t: ExecutionContext, answer: Answer, stream: boolean, expected: Whole) {
  const { by, finish, estimated, costNano } = expected
  t.is(answer.status, 200, answer.text)
  t.is(answer.headers.get('x-gateway-provider'), by)
  const events = stream ? dataOf(answer.text) : [JSON.parse(answer.text)]
  if (stream) t.is(events.pop(), '[DONE]')
  const choices = events.map(event => event.choices[0])
  t.is(choices.map(({ delta, message }) => (delta ?? message).content ?? '').join(''), storyOf(by))
  t.deepEqual(choices.map(({ finish_reason }) => finish_reason).filter(Boolean), [finish])
  t.is(events[0].provider, by)
  const { usage } = events.at(-1)
  t.is(usage.cost, costNano / 1e9)
  t.is(usage.estimated === true, estimated)
  return { status: 200, errorCode: null, finishReason: finish, estimated }
}

/** The stream ends in exactly one error event, and nothing in it says that it is whole. */
function isBroken(t: ExecutionContext, answer: Answer, model: string, broken: Extract<Outcome, { is: 'broken' }>) {
  const { code, reason, text, status: upstream = null } = broken
  t.is(answer.status, 200, answer.text)
  t.is(answer.headers.get('x-gateway-provider'), 'p1')
  const events = dataOf(answer.text)
  const last = events.pop()
  t.like(last, { object: 'chat.completion.chunk', error: { code, type: 'server_error', param: null } })
  t.deepEqual(last.choices, [{ index: 0, delta: {}, finish_reason: 'error' }])
  t.deepEqual(last.error.metadata.attempts, [{ provider: 'p1', model, status: upstream, reason }])
  t.true(events.every(({ choices, error }) => choices[0].finish_reason === null && !error))
  t.is(events.map(({ choices }) => choices[0].delta.content ?? '').join(''), text)
  return { status: errorOf(reason).status, errorCode: code, finishReason: 'error' }
}

function isRefused(t: ExecutionContext, answer: Answer, { code, message }: Extract<Outcome, { is: 'refusal' }>) {
  t.is(answer.status, 400, answer.text)
  t.is(answer.headers.get('content-type'), 'application/json; charset=utf-8')
  const { error } = JSON.parse(answer.text)
  t.like(error, { code, type: 'invalid_request_error' })
  t.regex(error.message, message)
  return { status: 400, errorCode: code }
}

function isFailed(t: ExecutionContext, answer: Answer, one: Case, expected: Extract<Expected, { failures: number }>) {
  const { status, code, failures, reason, upstream, retryAfter } = expected
  const provider = one.fault.provider ?? 'p1'
  const needsOperator = reason === 'auth' || reason === 'quota'
  t.is(answer.status, status, answer.text)
  t.is(answer.headers.get('x-should-retry'), needsOperator ? 'false' : null)
  t.is(answer.headers.get('x-gateway-provider'), provider)
  t.is(answer.headers.get('retry-after'), retryAfter)
  const { error } = JSON.parse(answer.text)
  t.like(error, { code, type: 'upstream_error', param: null })
  const attempt = { provider, model: one.id, status: upstream, reason }
  t.deepEqual(
    error.metadata.attempts,
    Array.from({ length: failures }, () => attempt),
  )
  return { status, errorCode: code }
}
