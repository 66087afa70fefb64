import fc from 'fast-check'
import type { ChatMessage } from '../../../shared/kinds/chat.ts'
import type { ReasoningDetail } from '../../../shared/kinds/reasoning.ts'
import type { Call } from '../../../shared/providers/contract.ts'
import { openReasoningSealer, ReasoningSealer } from '../../../shared/providers/toolkit/reasoning-envelope.ts'
import { DetailSealer, restoreReasoning } from '../../../shared/providers/toolkit/reasoning-state.ts'
import { thinkingBlocks } from '../../../shared/providers/toolkit/signed-thinking.ts'
import { fuzzRuns } from '../../support/fuzz.ts'
import { callOf } from '../../support/providers/anthropic.ts'
import { test } from '../../support/test.ts'

const secret = 'a signing secret of 32 characters'
const ours = { organisationId: 'org_1', environment: 'live' } as const
/** One serves the envelopes of one request. */
const opened = (envelope: string) => new ReasoningSealer(secret, ours).open(envelope)
const sealer = new ReasoningSealer(secret, ours)
const state = { provider: 'anthropic', credentialId: 'key1', model: 'claude', state: 'EqQB==' }

const states = fc.record({
  provider: fc.string({ unit: 'binary' }),
  credentialId: fc.option(fc.string()),
  model: fc.string(),
  state: fc.string({ unit: 'binary', maxLength: 2_000 }),
})

test('opened: what was sealed, by any process with the secret', t => {
  fc.assert(
    fc.property(states, one => {
      const envelope = sealer.seal(one)!
      t.regex(envelope, /^hg1\.[\w-]+$/)
      t.deepEqual(opened(envelope), one)
    }),
    { numRuns: fuzzRuns(300) },
  )
})

test('null: an envelope with any other character in any place, cut short or made longer', t => {
  const envelope = sealer.seal(state)!
  const characters = '.=+/-_AZaz09 ü'
  for (let at = 0; at < envelope.length; at++) {
    t.is(opened(envelope.slice(0, at)), null)
    for (const other of characters)
      if (other !== envelope[at]) t.is(opened(envelope.slice(0, at) + other + envelope.slice(at + 1)), null)
  }
  for (const other of characters) t.is(opened(envelope + other), null)
  fc.assert(
    fc.property(fc.nat(), fc.integer({ min: 0, max: 7 }), (seed, bit) => {
      const bytes = Buffer.from(envelope.slice(4), 'base64url')
      bytes[seed % bytes.length]! ^= 1 << bit
      t.is(opened(`hg1.${bytes.toString('base64url')}`), null)
    }),
    { numRuns: fuzzRuns(500) },
  )
})

test('400 for more envelopes than one request may have, whether they are genuine or not', t => {
  const envelope = sealer.seal(state)!
  for (const one of [envelope, `${envelope.slice(0, 20)}AAAA${envelope.slice(24)}`]) {
    const opener = new ReasoningSealer(secret, ours, ['an older secret of 32 characters'])
    for (let i = 0; i < 4_096; i++) opener.open(one)
    t.throws(() => opener.open(one), { code: 'invalid_request', message: /at most 4096 states/ })
  }
})

test('null: anything else, without an exception', t => {
  fc.assert(fc.property(fc.string({ unit: 'binary' }), text => t.is(opened(text), null)))
  fc.assert(fc.property(fc.base64String({ maxLength: 200 }), text => t.is(opened(`hg1.${text}`), null)))
  for (const text of ['', 'hg1.', 'hg1.AAAA', 'hg2.AAAA']) t.is(opened(text), null)
  t.is(opened(`hg1.${'A'.repeat(8_000_000)}`), null)
})

test('null: an envelope of another organisation, of test keys, or of another secret', t => {
  const envelope = sealer.seal(state)!
  const others = [
    new ReasoningSealer(secret, { ...ours, organisationId: 'org_2' }),
    new ReasoningSealer(secret, { ...ours, environment: 'test' }),
    new ReasoningSealer(`${secret}!`, ours),
  ]
  for (const other of others) t.is(other.open(envelope), null)
})

test('null: a state of more than a megabyte; no sealer: a secret that cannot be read', async t => {
  const long = sealer.seal({ ...state, state: 'a'.repeat(1024 * 1024) })!
  t.is(opened(long)?.state.length, 1024 * 1024)
  t.is(sealer.seal({ ...state, state: 'a'.repeat(1024 * 1024 + 1) }), null)
  t.is(
    await openReasoningSealer({ current: null, older: [], get: () => Promise.reject(new Error('no database')) }, ours),
    null,
  )
})

const hi = { role: 'user', content: 'hi' } as const
const callAt = (reasoning_details: unknown, credentialId: string | null = 'key1'): Call<'chat'> => ({
  ...callOf({ model: 'x', messages: [hi, { role: 'assistant', content: 'a', reasoning_details }, hi] }),
  reasoning: { sealer, credentialId },
})
type Assistant = Extract<ChatMessage, { role: 'assistant' }>
/** What an adapter gets of the details that a client hands back. */
function restored(details: readonly ReasoningDetail[], credentialId?: string | null) {
  const { call, dropped } = restoreReasoning(callAt(details, credentialId))
  const message = call.body.messages[1] as Assistant
  return { details: message.reasoning_details ?? [], blocks: thinkingBlocks(message), dropped }
}

/** Joins neighbours of one text, as clients do that assemble a stream. */
function joined(details: readonly ReasoningDetail[]): ReasoningDetail[] {
  const list: ReasoningDetail[] = []
  for (const detail of details) {
    const last = list.at(-1)
    const continues = detail.type === 'reasoning.text' && last?.type === detail.type && last.index === detail.index
    if (continues) Object.assign(last!, detail, { text: `${last!.text}${detail.text}` })
    else list.push({ ...detail })
  }
  return list
}

const blocks = fc.array(
  fc.oneof(
    fc.record({
      type: fc.constant('thinking' as const),
      thinking: fc.string({ unit: 'grapheme', maxLength: 60 }),
      signature: fc.base64String({ minLength: 4 }),
    }),
    fc.record({ type: fc.constant('redacted_thinking' as const), data: fc.base64String({ minLength: 4 }) }),
  ),
  { minLength: 1, maxLength: 6 },
)

test('restored: every block byte-equal, however a stream was cut and handed back', t => {
  fc.assert(
    fc.property(blocks, fc.integer({ min: 1, max: 9 }), (given, size) => {
      const stream = new DetailSealer(callAt([]))
      const shown = given.flatMap((block, index) => {
        if (block.type === 'redacted_thinking')
          return stream.seal(0, [{ type: 'reasoning.encrypted', data: block.data, index }])
        // Cut anywhere, even within a surrogate pair.
        const pieces = block.thinking.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []
        const texts = pieces.flatMap(text => stream.seal(0, [{ type: 'reasoning.text', text, index }]))
        return [...texts, ...stream.seal(0, [{ type: 'reasoning.text', text: '', signature: block.signature, index }])]
      })
      for (const { signature, data } of shown) for (const one of [signature, data]) if (one) t.regex(one, /^hg1\./)
      for (const handedBack of [shown, joined(shown)]) t.like(restored(handedBack), { blocks: given, dropped: false })
    }),
    { numRuns: 200 },
  )
})

test('dropped: state with another text, in another place, of another account, or not sealed; the rest stays', t => {
  const seal = new DetailSealer(callAt([]))
  const [text, encrypted] = seal.seal(0, [
    { type: 'reasoning.text', text: 'I think.', signature: 'sig', index: 0 },
    { type: 'reasoning.encrypted', data: 'secret', index: 1 },
  ]) as [ReasoningDetail, ReasoningDetail]
  const redacted = { type: 'redacted_thinking', data: 'secret' }
  t.deepEqual(restored([text, encrypted]).blocks as unknown, [
    { type: 'thinking', thinking: 'I think.', signature: 'sig' },
    redacted,
  ])
  const changed: ReasoningDetail[] = [
    { ...text, text: 'I think!' },
    { ...text, signature: 'sig' },
    { ...text, type: 'reasoning.encrypted', data: text.signature! },
    { ...text, signature: text.signature!.slice(0, -1) },
  ]
  for (const detail of changed) t.deepEqual(restored([detail, encrypted]), { ...restored([encrypted]), dropped: true })
  t.deepEqual(restored([{ ...encrypted, data: 'secret' }]), { details: [], blocks: [], dropped: true })
  for (const credentialId of ['key2', null])
    t.deepEqual(restored([text, encrypted], credentialId), { details: [], blocks: [], dropped: true })
  t.like(restored([{ ...encrypted, type: 'reasoning.text', text: 'x', data: null, signature: encrypted.data! }]), {
    blocks: [redacted],
    dropped: false,
  })
  const unsigned = [
    { type: 'reasoning.text', text: 'Hm', index: 0 },
    { type: 'reasoning.summary', summary: 'S' },
  ]
  t.deepEqual(restored(unsigned), { details: unsigned, blocks: [], dropped: false })
})

test('state of one model is not another’s', t => {
  const [detail] = new DetailSealer(callAt([])).seal(0, [{ type: 'reasoning.encrypted', data: 'secret' }])
  const call = callAt([detail!])
  const model = { ...call.target.model, id: 'y' }
  t.true(restoreReasoning({ ...call, target: { ...call.target, model } }).dropped)
  const provider = { ...call.target.provider, name: 'elsewhere' }
  t.true(restoreReasoning({ ...call, target: { ...call.target, provider } }).dropped)
})
