import assert from 'node:assert/strict'
import { call } from '../../support/gateway.ts'
import { gated } from '../providers.ts'
import { acrossSteps, type Piece } from './across-steps.ts'
import { assertCharged, assertDuration, coinNano, rowOf, Stopwatch, type Tokens } from './charges.ts'

const path = '/v1/chat/completions'

type Answer = { status: number; id: string | null; text: string; tookMs: number }
type Call = { mark: string; answer: Promise<Answer>; leave(): void }

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
  return { mark, answer, leave: () => leaving.abort() }
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
      const seen = { minMs: cell.providers.gates.waitedMs(mark), maxMs: tookMs }
      assertDuration((await rowOf(cell, { id: id! })).durationMs, seen, 'the duration')
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

/** Calls that their clients leave, which are charged by the time that they took. */
export const leftCalls = acrossSteps<Call & { watch: Stopwatch }>({
  name: 'left call',
  async open({ stack, account, providers }, mark) {
    const watch = new Stopwatch()
    const asked = ask(stack.url, account.live, mark, { model: silentModel, max_tokens: 30_000, user: mark })
    await Promise.race([providers.gates.arrival(mark), asked.answer])
    watch.started()
    return { ...asked, watch }
  },
  async close({ providers }, { mark, answer, watch, leave }) {
    watch.stopping()
    leave()
    await answer.catch(() => {})
    await providers.gates.departure(mark)
    watch.stopped()
  },
  async check(cell, { mark, watch }) {
    const { id, completionTokens, costNano } = await rowOf(cell, { endUser: mark })
    const billedMs = (completionTokens / assumedTokensPerSecond) * 1_000
    assertDuration(billedMs, watch.seen, `the time of ${completionTokens} output tokens (${costNano} nano-dollars)`)
    await assertCharged(cell, id, Number(costNano))
  },
})
