import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { memberText } from '../../../shared/base/json-member.ts'
import { serializeAnswer } from '../../../shared/chat/attempt.ts'
import { chatFormatOf } from '../../../shared/chat/chat-formats.ts'
import type { OpenAiKind } from '../../../shared/kinds/index.ts'
import { openai } from '../../../shared/providers/adapters/openai/protocol.ts'
import { ProviderError } from '../../../shared/providers/provider-error.ts'
import { fuzzRuns } from '../../support/fuzz.ts'
import { call } from '../../support/providers/openai-call.ts'
import { test } from '../../support/test.ts'

const messages = [{ role: 'user', content: 'Hi' }]
const bodies = {
  chat: { model: 'a', messages },
  completion: { model: 'a', prompt: 'Hi' },
  embedding: { model: 'a', input: ['a', 'b'] },
}

/** What the client of a provider's answer gets, and what serialising all of it would give; null for an answer that is refused. */
async function shownOf(kind: OpenAiKind, text: string, body: object = bodies[kind]) {
  const json = JSON.parse(text)
  const whole = { adapter: openai.direct[kind]!, call: call<typeof kind>(body), json, id: 'gen-1' }
  try {
    const { shown } = await chatFormatOf(kind).billAnswer(whole, { marginPpm: 0n, free: true })
    return { shown: serializeAnswer(shown, { json, text }), serialised: JSON.stringify(shown), json }
  } catch (error) {
    if (error instanceof ProviderError && error.reason === 'invalid_response') return null
    throw error
  }
}

/** How a text is written that means the same: numbers say what each piece of it looks like. */
class Writer {
  readonly #dice: readonly number[]
  #at = 0

  constructor(dice: readonly number[]) {
    this.#dice = dice
  }

  write(value: unknown): string {
    if (typeof value === 'string') return this.#string(value)
    if (typeof value === 'number') return this.#number(value)
    if (typeof value !== 'object' || value === null) return JSON.stringify(value)
    if (Array.isArray(value)) return `[${value.map(one => this.#spaced(this.write(one))).join(',')}]`
    return `{${Object.entries(value)
      .map(member => this.#member(member))
      .join(',')}}`
  }

  #member([name, value]: [string, unknown]): string {
    const written = `${this.#spaced(this.#string(name))}:${this.#spaced(this.write(value))}`
    // The last of several members of a name is the one that is read.
    return this.#roll() === 1 ? `${this.#string(name)}:[{"usage":"]"}],${written}` : written
  }

  #string(text: string): string {
    if (this.#roll() !== 2) return JSON.stringify(text)
    return `"${Array.from({ length: text.length }, (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')}"`
  }

  #number(value: number): string {
    const written = JSON.stringify(value)
    return this.#roll() % 3 === 0 && Number.isSafeInteger(value) ? `${written}.0` : written
  }

  #spaced(written: string): string {
    const roll = this.#roll()
    return roll < 4 ? written : `${[' ', '\t', '  ', '\n', '\r\n'][roll - 4] ?? ''}${written}${roll % 2 ? ' ' : ''}`
  }

  #roll(): number {
    return this.#dice[this.#at++ % this.#dice.length]!
  }
}

const maybe = <T>(arbitrary: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 4, arbitrary }, { weight: 1, arbitrary: fc.jsonValue() })
const words = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.constantFrom('"choices":[]', '\\"usage\\":{"', ']}', 'déjà vu 漢字 🙂', '\\', '\\\\"', 'a\n\tb', '\ud800'),
)
const count = fc.nat(500)
const usage = fc.record({ prompt_tokens: count, completion_tokens: count, total_tokens: count }, { requiredKeys: [] })
const more = fc.dictionary(fc.oneof(words, fc.constantFrom('usage', 'choices', '__proto__', 'model')), fc.jsonValue(), {
  maxKeys: 3,
})
const message = fc.record(
  {
    role: maybe(fc.constant('assistant')),
    content: fc.oneof({ weight: 5, arbitrary: words }, { weight: 1, arbitrary: fc.constant(null) }),
    refusal: fc.constant(null),
    reasoning: fc.constantFrom(null, null, null, 'Hm'),
    tool_calls: fc.constantFrom(
      null,
      [],
      [{ id: 'call_a1', type: 'function', function: { name: 'f', arguments: '{"a":"]"}' } }],
    ),
  },
  { requiredKeys: ['role', 'content'] },
)
const choice = fc.record(
  {
    index: maybe(fc.constant(0)),
    message,
    text: words,
    logprobs: fc.constantFrom(null, { content: [{ token: 'a', logprob: -0.25, bytes: [97] }] }),
    finish_reason: fc.constantFrom('stop', 'stop', 'length', 'tool_calls', 'model_length', null, 7),
    usage: fc.jsonValue(),
  },
  { requiredKeys: ['index', 'message', 'text', 'logprobs', 'finish_reason'] },
)
const vector = fc.record({
  object: maybe(fc.constant('embedding')),
  index: maybe(fc.constant(0)),
  embedding: fc.oneof(
    {
      weight: 8,
      arbitrary: fc.array(
        fc.double({ noNaN: true, noDefaultInfinity: true }).map(x => x + 0),
        { minLength: 1 },
      ),
    },
    { weight: 1, arbitrary: fc.constantFrom('AACAPwAAIMA=', []) },
  ),
})
const twoVectors = fc
  .tuple(vector, vector, fc.constantFrom({}, {}, {}, { norm: 1 }))
  .map(([one, other, more]) => [one, { ...other, index: other.index === 0 ? 1 : other.index, ...more }])
const head = {
  id: maybe(words),
  object: fc.constantFrom('chat.completion', 'list', 'x'),
  created: maybe(count),
  model: maybe(words),
  usage: maybe(usage),
  provider: words,
  obfuscation: words,
  system_fingerprint: fc.oneof(words, fc.constant(null)),
}
const answers: Record<OpenAiKind, fc.Arbitrary<object>> = {
  chat: fc.record(
    { ...head, choices: fc.array(choice, { minLength: 1, maxLength: 2 }) },
    { requiredKeys: ['choices'] },
  ),
  completion: fc.record(
    { ...head, choices: fc.array(choice, { minLength: 1, maxLength: 2 }) },
    { requiredKeys: ['choices'] },
  ),
  embedding: fc.record(
    {
      ...head,
      data: twoVectors,
    },
    { requiredKeys: ['data'] },
  ),
}

for (const kind of ['chat', 'completion', 'embedding'] as const) {
  test(`${kind}: a copied answer says what the same one says serialised, however the provider wrote it`, async t => {
    let copied = 0
    let answered = 0
    const dice = fc.array(fc.noBias(fc.nat(400)), { minLength: 1, maxLength: 60 })
    const cases = fc.record({ answer: answers[kind], more, dice, isFirst: fc.boolean() })
    const property = fc.asyncProperty(cases, async ({ answer, more, dice, isFirst }) => {
      const padding = { padding: '[{"\\'.repeat(1_500) }
      const text = new Writer(dice).write(
        isFirst ? { ...padding, ...more, ...answer } : { ...answer, ...padding, ...more },
      )
      const given = await shownOf(kind, text)
      if (!given) return
      answered++
      if (given.shown !== given.serialised) copied++
      t.true(isDeepStrictEqual(JSON.parse(given.shown), JSON.parse(given.serialised)), text)
      t.false(/[\n\r]/.test(given.shown))
      t.deepEqual(given.json, JSON.parse(text), 'what was received is left as it is')
    })
    await fc.assert(property, { numRuns: 400 })
    t.log({ answered, copied })
    t.true(copied > 0 && answered > copied)
  })
}

const floats = Array.from({ length: 400 }, (_, i) => `0.${String(i).padStart(3, '0')}00000000000055511`)
const vectors = (written: string, more = '') =>
  `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[${written}]}],"model":"m"${more}}`
const oneInput = { model: 'a', input: 'a' }

test('vectors keep every digit that the provider wrote', async t => {
  const { shown } = (await shownOf('embedding', vectors(`${floats.join(',')},1e400,-0,1.50`), oneInput))!
  t.true(shown.includes(`"embedding":[${floats.join(',')},1e400,-0,1.50]`))
})

test('serialised: what is indented, small, converted, out of order, or has fields that are not ours', async t => {
  const differs = async (text: string, body: object = oneInput) => {
    const { shown, serialised } = (await shownOf('embedding', text, body))!
    return shown !== serialised
  }
  const list = floats.join(',')
  t.true(await differs(vectors(list)))
  t.true(await differs(vectors(floats.join(', '))))
  t.false(await differs(vectors(floats.join(',\n  '))))
  t.false(await differs(vectors('1.50')))
  t.false(await differs(vectors(list), { ...oneInput, encoding_format: 'base64' }))
  t.false(await differs(vectors(list).replace('"index":0', '"index":0,"norm":1')))
  t.false(await differs(vectors(list).replace('"object":"embedding",', '')))
  t.false(await differs(vectors(list, ',"d\\u0061ta":7').replace('"model":"m",', '')).catch(() => false))
  const swapped = [1, 0].map(index => `{"object":"embedding","index":${index},"embedding":[${list}]}`)
  t.false(await differs(`{"data":[${swapped}]}`, { model: 'a', input: ['a', 'b'] }))
})

test('an image that cannot be decoded is left out of a large answer', async t => {
  const image = (url: string) => ({ type: 'image_url', image_url: { url } })
  const images = [image(`data:image/png;base64,${'A'.repeat(5_000)}`), image('https://example.com/a.png')]
  const message = { role: 'assistant', content: 'Here.', images }
  const text = JSON.stringify({ model: 'm', choices: [{ index: 0, message, finish_reason: 'stop' }] })
  const { shown } = (await shownOf('chat', text))!
  t.deepEqual(JSON.parse(shown).choices[0].message.images, [images[1]])
})

test('the text of a member: its value as written; null where the object has it twice, hidden, or not', t => {
  t.is(memberText(' {"a" : [1, "]\\"", {"b":2}] ,\n"b":"x"}', 'a'), '[1, "]\\"", {"b":2}]')
  t.is(memberText('{"a":{"b":1},"b":-1.5e3}', 'b'), '-1.5e3')
  t.is(memberText('{"b": "\\\\"}', 'b'), '"\\\\"')
  for (const text of ['{}', '{"a":{"b":1}}', '{"b":1,"b":1}', '{"\\u0062":1}', '{"b":1,"\\u0061":1}', '{"c":"b"}'])
    t.is(memberText(text, 'b'), null, text)
  const property = fc.property(
    fc.dictionary(words, fc.jsonValue()),
    words,
    fc.array(fc.nat(30), { minLength: 1 }),
    (object, name, dice) => {
      const found = memberText(new Writer(dice).write(object), name)
      if (found !== null) t.deepEqual(JSON.parse(found), JSON.parse(JSON.stringify(object))[name])
    },
  )
  fc.assert(property, { numRuns: fuzzRuns(2_000) })
})
