import { statSync } from 'node:fs'
import fc from 'fast-check'
import { learnWeights } from '../../bench/routing/fit.ts'
import { figuresOf } from '../../bench/routing/metrics.ts'
import { type ChatRequest, chatRequest } from '../../shared/kinds/chat.ts'
import { type DifficultyWeights, difficultyOf, learnedScore, sumOf } from '../../shared/routing/difficulty.ts'
import weights from '../../shared/routing/difficulty-weights.json' with { type: 'json' }
import { chatFeatures } from '../../shared/routing/features.ts'
import { cueNames, readPrompt } from '../../shared/routing/prompt-cues.ts'
import { fuzzRuns } from '../support/fuzz.ts'
import { test } from '../support/test.ts'

function difficulty(content: unknown, more: object = {}, learned?: DifficultyWeights): number {
  const request = chatRequest.parse({ model: 'auto', messages: [{ role: 'user', content }], ...more })
  return difficultyOf(request as ChatRequest, learned)
}

const smallTalk = {
  English: ['Hi, how are you?', 'thanks!', 'Good morning! I hope you are well.', 'ok', 'bye'],
  German: ['Hallo, wie geht es dir?', 'Danke, das war sehr hilfreich.', 'Guten Abend!'],
  Spanish: ['¡Hola! ¿Qué tal?', 'Gracias, eso es todo por hoy.'],
  French: ['Bonjour, ça va ?', 'Merci beaucoup !'],
  Chinese: ['你好，你好吗？', '谢谢！'],
  Japanese: ['こんにちは、元気ですか？'],
  Russian: ['Привет, как дела?'],
  Arabic: ['مرحبا كيف حالك'],
}
const factual = {
  English: ['What is the capital of Portugal?', 'Who painted the Mona Lisa?', 'What does HTTP stand for?'],
  German: ['Was ist die Hauptstadt von Portugal?'],
  Spanish: ['¿Cuál es la capital de Portugal?'],
  Chinese: ['葡萄牙的首都是哪里？'],
}
const coding = {
  English: [
    'Write a TypeScript function that debounces another one: function debounce(call, delayMs)',
    'My API endpoint answers 500 with this exception:\n```\nKeyError: id\n```\nHow do I debug it?',
  ],
  German: ['Schreibe eine Python Funktion, die eine verkettete Liste umdreht, und erkläre den Algorithmus.'],
  Spanish: ['Escribe una función en Python que invierta una lista enlazada y explica el algoritmo.'],
  Chinese: ['写一个Python函数，反转链表，并解释算法。'],
}
const hard = {
  English: [
    'Prove that every bounded sequence of real numbers has a convergent subsequence.',
    'Design a ledger that survives the loss of a region: compare three replication strategies, analyze their failure modes step by step and prove that no entry is booked twice.',
  ],
  German: ['Beweise, dass es unendlich viele Primzahlen gibt.'],
  Spanish: ['Demuestra que hay infinitos números primos.'],
  French: ['Démontrez que la racine de 2 est irrationnelle.'],
  Chinese: ['证明√3是无理数。'],
  Russian: ['Докажите, что корень из двух иррационален.'],
}
const wordProblems = {
  English:
    'Two pipes fill a tank in 6 and 8 hours, and a third empties it in 12. If all three are opened at 9:00 and the third is closed after 2 hours, when is the tank full? How much longer would it take if it stayed open?',
  German:
    'Ein Zug fährt um 8:15 Uhr mit 90 km/h los, ein zweiter folgt um 9:00 Uhr mit 120 km/h. Berechne, wann er den ersten einholt, wenn er unterwegs 10 Minuten hält.',
  Chinese: '一列火车8:15以90公里每小时出发，另一列9:00以120公里每小时出发。如果第二列停10分钟，计算它何时追上第一列。',
}

test('near 0: small talk in every language', t => {
  for (const text of Object.values(smallTalk).flat()) t.true(difficulty(text) < 0.15, text)
})

test('low to middle: simple facts, above the small talk of the same language', t => {
  for (const [language, texts] of Object.entries(factual))
    for (const text of texts) {
      t.true(difficulty(text) < 0.4, text)
      t.true(difficulty(text) > difficulty(smallTalk[language as keyof typeof factual][0]), text)
    }
})

test('middle to high: code, above the facts of the same language', t => {
  for (const [language, texts] of Object.entries(coding))
    for (const text of texts) {
      t.true(difficulty(text) > 0.5, text)
      for (const easier of factual[language as keyof typeof coding])
        t.true(difficulty(text) > difficulty(easier) + 0.2, text)
    }
})

test('high: proofs and long analysis, above code; word problems of several steps are not far', t => {
  for (const text of Object.values(hard).flat()) t.true(difficulty(text) > 0.78, text)
  for (const text of hard.English) for (const easier of coding.English) t.true(difficulty(text) > difficulty(easier))
  for (const text of Object.values(wordProblems)) t.true(difficulty(text) > 0.5, text)
})

test('the same in text parts as in a string, and whatever the order of the fields', t => {
  const [text] = hard.English
  const parts = [{ type: 'text', text }]
  t.is(difficulty(parts), difficulty(text))
  const request = { model: 'auto', reasoning_effort: 'high', tools: [], messages: [{ role: 'user', content: text }] }
  const reversed = Object.fromEntries(Object.entries(request).reverse())
  t.is(difficultyOf(reversed as ChatRequest), difficultyOf(request as unknown as ChatRequest))
  t.is(difficulty(text), difficulty(text))
})

test('an exam’s lettered choices are neither hard nor easy in themselves, names are easier than statements', t => {
  const question = 'Which planet of the solar system has the largest number of confirmed moons?'
  const asked = difficulty(question)
  const names = difficulty(`${question}\nA. Jupiter\nB. Saturn\nC. Uranus\nD. Neptune\nAnswer:`)
  const planets = ['is nearest to the sun', 'is farthest from the sun', 'has the most mass', 'has the least mass']
  const statements = planets.map((which, i) => `${'ABCD'[i]}. The planet that ${which}`)
  const described = difficulty(`${question}\n${statements.join('\n')}\nAnswer:`)
  t.true(names < described)
  t.true(Math.abs((names + described) / 2 - asked) < 0.2, `${names} ${described} ${asked}`)
})

test('long material makes a simple task no harder, and a question about a book not as hard as its length', t => {
  const sentence =
    'Either party may terminate this agreement for cause upon thirty days of written notice, unless it is cured. '
  t.true(difficulty(`Summarise this in three sentences:\n\n${sentence.repeat(40)}`) < 0.35)
  const about = (count: number) => difficulty(`When does the notice end?\n\n${sentence.repeat(count)}`)
  t.true(about(5_000) < about(500) && about(500) < about(10))
})

test('lettered lists hide nothing that is asked below them', t => {
  const list = 'Our options:\nA. one big table\nB. a table for each tenant\n\n'
  const asked = 'Prove that B cannot deadlock, and analyze the complexity of every query step by step.'
  t.true(difficulty(list + asked) > difficulty(list) + 0.2)
})

const text = 'Tell me more about how this works in practice, please, and what to look out for.'
const turn = [
  { role: 'user', content: 'And then?' },
  { role: 'assistant', content: 'Then this.' },
]

test('higher with tools, the more of them', t => {
  const tools = (count: number) =>
    Array.from({ length: count }, (_, i) => ({ type: 'function', function: { name: `f${i}` } }))
  const [none, one, ten] = [0, 1, 10].map(count => difficulty(text, { tools: tools(count) }))
  t.true(none! < one! && one! < ten!)
})

test('higher the deeper the conversation is, and the longer its system prompt', t => {
  const deep = (turns: number) =>
    difficulty(text, { messages: [...Array(turns).fill(turn).flat(), { role: 'user', content: text }] })
  t.true(deep(0) < deep(2) && deep(2) < deep(20))
  const system = (characters: number) => [
    { role: 'system', content: 'x'.repeat(characters) },
    { role: 'user', content: text },
  ]
  t.true(difficulty(text, { messages: system(100) }) < difficulty(text, { messages: system(20_000) }))
})

test('higher when a short message goes on with a conversation than when it begins one', t => {
  const more = { role: 'user', content: 'Now the other one' }
  t.true(difficulty('', { messages: [...turn, more] }) > difficulty('', { messages: [more] }))
})

test('higher with a schema, with an image, and the more thinking is asked for', t => {
  const plain = difficulty(text)
  const schema = { type: 'json_schema', json_schema: { name: 's', schema: { type: 'object' } } }
  t.true(difficulty(text, { response_format: schema }) > plain)
  const image = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } }
  t.true(difficulty([{ type: 'text', text: 'What is this?' }, image]) > difficulty('What is this?'))
  const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']
  const values = efforts.map(reasoning_effort => difficulty(text, { reasoning_effort }))
  t.deepEqual(
    values,
    values.toSorted((a, b) => a - b),
  )
  t.true(values[2]! < plain && plain < values[3]!)
})

test('estimated from the last user message', t => {
  const messages = [
    { role: 'user', content: hard.English[0] },
    { role: 'assistant', content: 'Here is the proof.' },
    { role: 'user', content: 'Thanks!' },
  ]
  t.true(difficulty('', { messages }) < 0.15)
})

const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.string({ unit: 'grapheme', maxLength: 300 }),
  fc.constantFrom(
    '',
    ' ',
    '\n'.repeat(9_000),
    '\ud800',
    '\udc00\udc00?',
    '\u0000',
    'A.\nB.',
    '\nA. \nB. ',
    '1'.repeat(9_000),
  ),
  fc
    .tuple(fc.string({ unit: 'binary', minLength: 1, maxLength: 4 }), fc.integer({ min: 1, max: 20_000 }))
    .map(([unit, count]) => unit.repeat(count)),
)
const anyContent = fc.oneof(
  anyText,
  fc.array(
    anyText.map(part => ({ type: 'text', text: part })),
    { minLength: 1, maxLength: 120 },
  ),
)

test('between 0 and 1 for any request', t => {
  const anyRequest = fc.record({
    messages: fc.array(
      fc.oneof(
        fc.record({ role: fc.constantFrom('user', 'system', 'developer', 'assistant'), content: anyContent }),
        fc.constant({ role: 'assistant', content: null }),
        fc.record({ role: fc.constant('tool'), tool_call_id: fc.constant('c'), content: anyText }),
      ),
      { minLength: 1, maxLength: 6 },
    ),
    reasoning_effort: fc.constantFrom(null, undefined, 'none', 'low', 'max'),
  })
  fc.assert(
    fc.property(anyRequest, request => {
      const value = difficulty('', request)
      t.true(value >= 0 && value <= 1, String(value))
    }),
    { numRuns: fuzzRuns(300) },
  )
})

test('between 0 and 1 for 10 MB of text, half a surrogate pair and nothing', t => {
  const long = 'Is x = 3 less than y, or not? '.repeat(350_000)
  for (const content of [
    long,
    '\ud83d',
    '',
    `${'a'.repeat(4_095)}😀${'b'.repeat(9_000)}`,
    Array(5_000).fill({ type: 'text', text: long.slice(0, 2_000) }),
  ]) {
    const value = difficulty(content)
    t.true(value >= 0 && value <= 1)
  }
  t.true(difficulty(long) > difficulty(long.slice(0, 30)))
})

test('equal: the difficulty of a request’s features and of its text', t => {
  const request = chatRequest.parse({ model: 'auto', messages: [{ role: 'user', content: text }] }) as ChatRequest
  const features = chatFeatures(request, text.length)
  t.is(features.difficulty(), difficulty(text))
})

test('other weights change the estimate', t => {
  const flipped = structuredClone(weights) as DifficultyWeights
  for (const ranking of flipped.rankings)
    for (const tree of ranking.trees) tree.splice(6, 4, ...tree.slice(6).reverse())
  t.not(difficulty(text, {}, flipped), difficulty(text))
})

test('the weights are small, complete and usable', t => {
  t.true(statSync(new URL('../../shared/routing/difficulty-weights.json', import.meta.url)).size < 20_000)
  t.deepEqual(Object.keys(weights.medians), [...cueNames])
  t.deepEqual(Object.keys(readPrompt('').cues).sort(), [...cueNames].sort())
  t.is(weights.rankings.length, 2)
  for (const { trees } of weights.rankings) {
    t.true(trees.length >= 50)
    for (const tree of trees) {
      t.is(tree.length, 10)
      t.true(tree.every(Number.isFinite))
      for (const cue of [tree[0], tree[2], tree[4]]) t.true(cueNames[cue!] !== undefined)
    }
  }
  const tables = [...weights.rankings.map(({ quantiles }) => quantiles), weights.wordQuantiles, weights.quantiles]
  for (const table of tables) {
    t.true(table.length >= 11)
    t.deepEqual(
      table,
      table.toSorted((a, b) => a - b),
    )
  }
})

test('a tree takes the branch of its thresholds', t => {
  const tree = [0, 1, 1, 2, 2, 3, 10, 20, 30, 40]
  const leaf = (...input: number[]) => sumOf([tree], Float64Array.from(input))
  t.deepEqual([leaf(0.9, 1.9, 9), leaf(0.9, 2, 0), leaf(1, 9, 2.9), leaf(1, 0, 3)], [10, 20, 30, 40])
  t.is(sumOf([tree, tree], Float64Array.from([0, 0, 0])), 20)
})

test('training finds what tells gains from losses, and ignores cues that are absent', t => {
  const rows = Array.from({ length: 400 }, (_, i) => {
    const isGain = i % 2 === 0
    const words = isGain ? 'seven apples cost more than nine of the pears' : 'the old town was called by this name'
    const prompt = `${words} ${'x '.repeat(i % 7)}`
    return { subject: `s${i % 5}`, prompt, weak: !isGain, strong: true, cues: readPrompt(prompt).cues }
  })
  const learned = learnWeights(rows)
  const [gain, loss] = [learnedScore(rows[0]!.cues, learned), learnedScore(rows[1]!.cues, learned)]
  t.true(gain > loss + 0.2, `${gain} ${loss}`)
  t.is(learned.medians.choiceLength, 0, 'no prompt has choices')
  t.deepEqual(learnWeights(rows), learned, 'equal rows give equal weights')
})

test('the benchmark’s figures: random is one half, and equal scores count as their expectation', t => {
  const row = (weak: boolean, strong: boolean) => ({ subject: 's', prompt: '', weak, strong })
  const rows = [row(false, true), row(true, true), row(false, false), row(false, true)]
  const scored = (...scores: number[]) => figuresOf(rows, new Map(rows.map((one, i) => [one, scores[i]!])))
  t.deepEqual(scored(0, 0, 0, 0), { apgr: 0.5, cpt: 0.5 })
  t.deepEqual(scored(1, 0, 0, 1), { apgr: 0.75, cpt: 0.25 })
  t.deepEqual(scored(0, 1, 1, 0), { apgr: 0.25, cpt: 0.75 })
})
