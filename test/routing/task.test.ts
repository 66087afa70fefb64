import { chatRequest } from '../../shared/kinds/chat.ts'
import { messagesRequest } from '../../shared/kinds/messages.ts'
import { responsesRequest } from '../../shared/kinds/responses.ts'
import { chatFeatures, type Features } from '../../shared/routing/features.ts'
import { messagesFeatures } from '../../shared/routing/messages-features.ts'
import { responsesFeatures } from '../../shared/routing/responses-features.ts'
import { type Task, taskOf } from '../../shared/routing/task.ts'
import { image } from '../support/routing/routing.ts'
import { test } from '../support/test.ts'

function featuresOf(...messages: object[]): Features {
  const body = chatRequest.parse({ model: 'auto', messages })
  return chatFeatures(body, JSON.stringify(body).length)
}
const user = (content: unknown) => ({ role: 'user', content })
const taskOfText = (text: string) => taskOf(featuresOf(user(text)))

const texts: [Task, string][] = [
  ['code', 'Write a function that reverses a string.'],
  ['code', 'Why does this fail?\n```\nprint(x)\n```'],
  ['code', 'What does this mean?\nTypeError: x is undefined\n    at load (/srv/app/index.js:12:5)'],
  ['code', 'Traceback (most recent call last):\n  File "a.py", line 3'],
  ['code', 'How do I join two tables in SQL without a subquery in PostgreSQL? My query is slow.'],
  ['code', 'Schreibe eine Funktion in Python, die zwei sortierte Listen zusammenführt.'],
  ['code', '用 Python 写一个函数，计算斐波那契数列，并优化代码。'],
  ['maths', 'Prove that there are infinitely many primes congruent to 3 modulo 4.'],
  ['maths', 'Solve the equation x^2 + 3x = 10.'],
  ['maths', 'Compute the integral of sin x from 0 to pi.'],
  ['maths', 'Beweise, dass die Wurzel aus 2 irrational ist.'],
  ['maths', '证明：根号二是无理数。'],
  ['multilingual', 'Wie heißt die Hauptstadt von Australien und wie viele Menschen leben dort?'],
  ['multilingual', 'Quelle est la capitale de l’Australie, et combien d’habitants a-t-elle ?'],
  ['multilingual', 'Qual é a capital da Austrália e quantas pessoas vivem por lá hoje?'],
  ['multilingual', 'Как называется столица Австралии?'],
  ['multilingual', 'オーストラリアの首都はどこですか。'],
  ['multilingual', 'ما هي عاصمة أستراليا؟'],
  ['general', 'What is the capital of Australia, and how many people live there?'],
  ['general', 'Write a short, friendly email that moves our meeting from Tuesday to Thursday afternoon.'],
  ['general', 'Which class of ship was the Titanic?'],
  ['general', 'Hi'],
  ['general', 'Merci beaucoup'],
  ['general', ''],
]
for (const [task, text] of texts) {
  test(`${task}: ${JSON.stringify(text.slice(0, 60))}`, t => t.is(taskOfText(text), task))
}

test('images are vision, whatever the text', t => {
  t.is(taskOf(featuresOf(user('Write a function that draws this.'), image)), 'vision')
})

test('a long prompt is long_context, unless its last message is clearly about something else', t => {
  const long = user('The obligations of the supplier survive the termination of this agreement. '.repeat(4_000))
  t.is(taskOf(featuresOf(long, user('What are the risks?'))), 'long_context')
  t.is(taskOf(featuresOf(long, user('Fix the bug in this script.'))), 'code')
})

test('in a conversation the last user message with text counts', t => {
  const call = { id: 'c', type: 'function', function: { name: 'read', arguments: '{}' } }
  const conversation = [
    user('Solve the equation x^2 = 10.'),
    { role: 'assistant', content: 'x is about 3.16.' },
    user('Debug this program.'),
    { role: 'assistant', tool_calls: [call] },
    { role: 'tool', tool_call_id: 'c', content: 'La capitale de l’Australie est Canberra, bien sûr.' },
  ]
  t.is(taskOf(featuresOf(...conversation)), 'code')
})

test('Messages and Responses are classified alike; results of tools are not the user’s text', t => {
  const messages = messagesRequest.parse({
    model: 'auto',
    max_tokens: 10,
    messages: [
      user('Debug this program.'),
      { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'read', input: {} }] },
      user([{ type: 'tool_result', tool_use_id: 't', content: 'ok' }]),
    ],
  })
  t.is(taskOf(messagesFeatures(messages, 200)), 'code')
  const responses = responsesRequest.parse({ model: 'auto', input: 'Prove Fermat’s little theorem.' })
  t.is(taskOf(responsesFeatures(responses, 200)), 'maths')
})

test('a text has the same class every time', t => {
  const text = '证明：根号二是无理数。'
  t.deepEqual([taskOfText(text), taskOfText(text), taskOfText(text)], ['maths', 'maths', 'maths'])
})

test('hostile texts are classified in milliseconds', t => {
  const hostile = ['at a(', ' at', 'write ', '`', 'x = ', '\n', 'a'.repeat(9), '(((', 'é'].map(text =>
    text.repeat(300_000),
  )
  for (const text of hostile) {
    const features = featuresOf(user(text))
    const before = process.cpuUsage()
    taskOf(features)
    t.true(process.cpuUsage(before).user < 50_000, text.slice(0, 10))
  }
})
