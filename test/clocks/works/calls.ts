import assert from 'node:assert/strict'
import { call } from '../../support/gateway.ts'
import { gated } from '../providers.ts'
import { acrossSteps, type Piece } from './across-steps.ts'
import { assertCharged, assertDuration, coinNano, rowOf, type Tokens } from './charges.ts'

const path = '/v1/chat/completions'

type Answer = { status: number; id: string | null; text: string; tookMs: number }
type Call = { mark: string; answer: Promise<Answer>; leave(): void; startedMs: number }

function ask(url: string, key: string, mark: string, body: object): Call {
  const startedMs = performance.now()
  const leaving = new AbortController()
  const answer = call(url, path, { key, body: { messages: gated(mark), ...body }, signal: leaving.signal }).then(
    async response => ({
      status: response.status,
      id: response.headers.get('x-generation-id'),
      text: await response.text(),
      tookMs: performance.now() - startedMs,
    }),
  )
  answer.catch(() => {}) // Whoever waits for it hears of it.
  return { mark, answer, leave: () => leaving.abort(), startedMs }
}

/** Chats whose answer was complete, whole or streamed. */
function answered(
  name: string,
  body: object,
  read: (text: string) => { usage: Tokens & { cost: number } },
): Piece<Call> {
  return {
    name,
    async open({ stack, account, providers }, mark) {
      const asked = ask(stack.url, account.live, mark, { model: 'coin', max_tokens: 100, ...body })
      // An answer at this time is a refusal.
      await Promise.race([providers.gates.arrival(mark), asked.answer])
      return asked
    },
    async close({ providers }, { mark, answer }) {
      providers.gates.open(mark)
      const { status, text } = await answer
      assert.equal(status, 200, text)
    },
    async check(cell, { answer, mark }) {
      const { status, text, id, tookMs } = await answer
      if (status !== 200) return
      const { usage } = read(text)
      assert.equal(cell.providers.gates.calls(mark), 1, 'calls of the provider')
      assert.equal(Math.round(usage.cost * 1e9), coinNano(usage), 'the cost that the answer states')
      await assertCharged(cell, id!, coinNano(usage))
      assertDuration((await rowOf(cell, { id: id! })).durationMs, tookMs, 'the duration')
    },
  }
}

export const chats = acrossSteps(answered('chat', {}, JSON.parse))

const streaming = { stream: true, stream_options: { include_usage: true } }
export const streams = acrossSteps(
  answered('stream', streaming, text => {
    assert.match(text, /data: \[DONE\]\n\n$/)
    return JSON.parse(
      text
        .split('\n\n')
        .findLast(event => event.includes('"usage":{'))!
        .slice('data: '.length),
    )
  }),
)

/** Nobody has answered a call of this model in full: its speed is not known. */
const silentModel = 'gpt-4.1'
const assumedTokensPerSecond = 100
/** What passes between the abort of a call and the time that the gateway counts. */
const toleranceTokens = 150

/** Calls that their clients leave, which are charged by the time that they took. */
export const leftCalls = acrossSteps<Call & { leftMs: number | null }>({
  name: 'left call',
  async open({ stack, account, providers }, mark) {
    const asked = ask(stack.url, account.live, mark, { model: silentModel, max_tokens: 30_000, user: mark })
    await Promise.race([providers.gates.arrival(mark), asked.answer])
    return { ...asked, startedMs: performance.now(), leftMs: null }
  },
  async close({ providers }, opened) {
    opened.leave()
    await opened.answer.catch(() => {})
    await providers.gates.departure(opened.mark)
    opened.leftMs = performance.now()
  },
  async check(cell, { mark, startedMs, leftMs }) {
    const { id, completionTokens, costNano } = await rowOf(cell, { endUser: mark })
    const tookMs = leftMs! - startedMs
    const expected = (tookMs / 1_000) * assumedTokensPerSecond
    assert.ok(
      Math.abs(completionTokens - expected) <= toleranceTokens,
      `${completionTokens} output tokens (${costNano} nano-dollars) for ${Math.round(tookMs)} ms`,
    )
    await assertCharged(cell, id, Number(costNano))
  },
})
