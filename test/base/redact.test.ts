import { redact, withoutFiles } from '../../shared/base/redact.ts'
import { test } from '../support/test.ts'

const parts = ['eyJhbGciOiJIUzI1NiJ9', 'eyJzdWIiOiIxMjM0NTY3ODkwIn0', 'dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U']
const token = parts.join('.')
const redacted = (text: string) => redact(text, { emails: true })

test('tokens and addresses are removed as a whole, whatever is beside them', t => {
  for (const [text, rest, count] of [
    [`x ${token} y`, 'x [secret removed] y', 1],
    [`"Bearer ${token}"`, '"[secret removed]"', 1],
    [`session-${token}`, 'session-[secret removed]', 1],
    [`${token}.${token}`, '[secret removed].[secret removed]', 2],
    [`${'a-'.repeat(2_000)}${token}`, `${'a-'.repeat(2_000)}[secret removed]`, 1],
    [`${parts[0]}${'A'.repeat(5_000)}.${parts[1]}${'B'.repeat(5_000)}.${'C'.repeat(5_000)}`, '[secret removed]', 1],
    [parts.slice(0, 2).join('.'), parts.slice(0, 2).join('.'), 0],
    [`a${token}`, `a${token}`, 0],
    ['From <ada.b+c@mail.example.com>, to x@y', 'From <[email removed]>, to x@y', 1],
    [`${'q'.repeat(100)}@example.com`, `${'q'.repeat(36)}[email removed]`, 1],
  ] as const)
    t.deepEqual(redacted(text), { text: rest, count })
})

const known: Record<string, string> = {
  openai: 'sk-proj-ABCDEFGHIJKLMNOPQRSTUVWX12345',
  anthropic: 'sk-ant-api03-ABCDEFGHIJKLMNOPQRSTUVWX12345',
  openrouter: 'sk-or-v1-0123456789abcdef0123456789abcdef',
  own: 'svc_sk_live_ABCDEFGHIJKLMNOPQRSTUVWX',
  webhook: 'whsec_ABCDEFGHIJKLMNOPQRSTUVWX',
  amazon: 'AKIAABCDEFGHIJKLMNOP',
  session: 'ASIAABCDEFGHIJKLMNOP',
  google: 'AIzaABCDEFGHIJKLMNOPQRSTUVWXYZ012345678',
  oauth: 'ya29.a0AbCdEfGhIjKlMnOpQrStUvWxYz',
  github: 'ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghij',
  githubFine: `github_pat_${'1A2b'.repeat(10)}`,
  gitlab: 'glpat-ABCDEFGHIJKLMNOPQRST',
  slack: 'xoxb-1234567890-abcdefghij',
  slackHook: 'hooks.slack.com/services/T0001/B0001/XXXXXXXXXXXXXXXX',
  stripe: 'rk_live_ABCDEFGHIJKLMNOPQRSTUVWX',
  sendgrid: 'SG.ABCDEFGHIJKLMNOPQRSTUV.ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789',
  huggingFace: 'hf_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefgh',
  groq: 'gsk_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefgh',
  replicate: 'r8_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijk',
  xai: 'xai-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefgh',
  neon: 'npg_AbCdEf123456',
  bearer: 'Bearer abcdefghijklmnopqrstuvwxyz0123',
  basic: 'Basic YWRhOmNvcnJlY3RIb3JzZQ==',
  token,
}
const escaped = (text: string) =>
  text.replace(/./g, (sign, at) => (at % 3 === 0 ? `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}` : sign))
const json = JSON.stringify
/** Where a secret may stand. */
const places: Record<string, (secret: string) => string> = {
  'alone in a string': secret => json({ a: secret }),
  'at the start of a line': secret => json({ a: `Key:\n${secret}\nend` }),
  'after a tab': secret => json({ a: `Key:\t${secret}\tend` }),
  'after a carriage return': secret => json({ a: `A=1\r${secret}` }),
  'in quotes': secret => json({ a: `He said "${secret}".` }),
  'after a backslash': secret => json({ a: `\\${secret}` }),
  'in colour': secret => json({ a: `\u001b[31m${secret}\u001b[0m` }),
  'in escapes': secret => `{"a":"${escaped(secret)}"}`,
  'as a name': secret => json({ [secret]: 1 }),
  'in the arguments of a tool': secret => json({ arguments: json({ env: `A\n${secret}` }) }),
  'in JSON in JSON in JSON': secret => json({ a: json([json({ b: json(`\n${secret}`) })]) }),
  'in source code': secret => json({ a: `printf("\\n${secret}")` }),
  'in JSON in a text': secret => json({ a: `The answer: {"b": "x\\n${secret}"}, is it?` }),
  'in text': secret => `Key:\n${secret}`,
  'in JSON that is cut off': secret => `{"a":"Key:\\n${secret}`,
  'in escapes that are cut off': secret => `{"a":"Key:\\n${escaped(secret)}\\u00`,
  'in what only resembles JSON': secret => `{'a': 'Key:\\n${secret}'}`,
  'in escapes of what is no JSON': secret => `- ${escaped(secret)} -`,
  'in an encoded URL': secret => `https://x.example/?a=%0A${secret.replace(' ', '+')}`,
}

for (const [place, write] of Object.entries(places)) {
  test(`a secret of any form is removed ${place}`, t => {
    for (const [form, secret] of Object.entries(known)) {
      const { text, count } = redact(write(secret), { emails: false })
      t.true(count > 0, form)
      // However many times it was written as JSON.
      const plain = text.replace(/\\+u00(..)/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
      for (const part of secret.split(/[ .]/).filter(part => part.length > 9 && !/slack|eyJhbG/.test(part)))
        t.false(plain.includes(part.slice(-10)), `${form}: ${text}`)
    }
  })
}

test('the value of a member whose name says that it is a secret is removed, of text also in a line', t => {
  for (const name of ['api_key', 'apiKey', 'OPENAI_API_KEY', 'x-api-key', 'password', 'clientSecret', 'Authorization'])
    for (const value of ['hunter2!', 'a b', 'x'])
      for (const spelt of [json(name), json(name).replace(/[aeiou]/, vowel => escaped(vowel))]) {
        t.is(
          redacted(`{"x":1.0,${spelt} : ${json(value)},"user":"ada"}`).text,
          `{"x":1.0,${spelt} : "[secret removed]","user":"ada"}`,
        )
        t.is(
          redacted(`{${spelt}:["${value}","y"],"z":"y"}`).text,
          `{${spelt}:["[secret removed]","[secret removed]"],"z":"y"}`,
        )
      }
  for (const [text, rest] of [
    ['DB_PASSWORD=hunter2-hunter2\n', 'DB_PASSWORD=[secret removed]\n'],
    ['x-api-key: 0123456789abcdef', 'x-api-key: [secret removed]'],
    ['const apiKey = "0123456789abcdef"', 'const apiKey = "[secret removed]"'],
    ['{ \\"api_key\\": \\"0123456789abcdef\\" }', '{ \\"api_key\\": \\"[secret removed]\\" }'],
    ['https://x.example/a?key=0123456789&b=1', 'https://x.example/a?key=[secret removed]&b=1'],
    ['postgres://ada:hunter2@db.example/app', 'postgres://ada:[secret removed]@db.example/app'],
    ['redis://:hunter2@cache', 'redis://:[secret removed]@cache'],
  ])
    t.is(redact(json({ a: text }), { emails: false }).text, json({ a: rest }))
})

test('other text stays as it is, byte for byte', t => {
  for (const text of [
    'A risk-free task-list for the desk-bound: ask-me-anything-about-everything-at-all.',
    'Basic understanding of bearer bonds; the password: please choose one. Token: a piece of text.',
    'AKIAAAA, sk-learn, sk-short, https://user@host/path?query=key&page=2, http://localhost:3000/a@b',
    'const password = process.env.PASSWORD; api_key=api_key; secret: string',
    'max_tokens=1000, top_k: 40, price: 10, 2026-11-26T10:00:00Z',
    `data:image/png;base64,${'sk-0AKIA'.repeat(1_000)}`,
  ])
    for (const written of [text, json({ a: text }, null, 8), ` { "max_tokens" : 1.50, "a":${json(text)} }`])
      t.deepEqual(redact(written, { emails: false }), { text: written, count: 0 })
  const schema = json({
    properties: { password: { type: 'string' }, api_key: 'string' },
    required: ['password', 'api_key'],
  })
  t.is(redacted(schema).text, schema)
})

test('the tokens of which a secret was made are removed with it', t => {
  const pieces = known.openai!.match(/.{1,4}/g)!
  const content = [{ type: 'text', text: known.openai }]
  const logprobs = { content: pieces.map(token => ({ token, logprob: -1, bytes: [...Buffer.from(token)] })) }
  const { text } = redacted(json({ choices: [{ message: { content }, logprobs }], logprobs: true }))
  t.like(JSON.parse(text), { choices: [{ logprobs: '[removed]' }], logprobs: true })
})

/** The least processor time, of this process alone, that a text costs. */
function leastCostMs(text: string): number {
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < 3; round++) {
    const before = process.cpuUsage()
    redacted(text)
    withoutFiles(text)
    least = Math.min(least, process.cpuUsage(before).user / 1_000)
  }
  return least
}

/** The largest input that is logged. */
const bytes = 1024 * 1024
/** How many times as much as ordinary text any other may cost: the searches that once were not linear cost hundreds. */
const maxRatio = 30

test('any text costs about as much as another of its length', t => {
  const usual = leastCostMs('Hello, world! '.repeat(bytes / 14))
  const units = {
    'beginnings of tokens': '-eyJ',
    'tokens without their end': `${'-eyJ'.repeat(512)}.eyJ${'-eyJ'.repeat(1_023)}`,
    letters: 'a',
    dashes: '-',
    'addresses without a domain': `${'a'.repeat(63)}@${'b'.repeat(63)}`,
    'signs of addresses': '.a@',
    'beginnings of keys': '-----BEGIN ',
    'beginnings of files': '"data:',
    'short files': `"${'a'.repeat(4_095)}`,
    'beginnings of secrets': 'sk-live_sk',
    'empty strings': '"",',
    'short strings': '"key-1",',
    'objects in strings': '"{\\"{',
    'names of secrets': 'api_key=',
    'passwords in URLs': '://a:a',
    'parameters of URLs': '?key=aaaaaaaa',
    escapes: '\\u0041',
    'spaces before a colon': '"a"          ',
  }
  for (const [name, unit] of Object.entries(units)) {
    const cost = leastCostMs(unit.repeat(Math.ceil(bytes / unit.length)))
    const asJson = leastCostMs(JSON.stringify([unit.repeat(Math.ceil(bytes / unit.length / 2))]))
    t.true(asJson < maxRatio * Math.max(usual, 1), `${name} in JSON: ${asJson} ms, usually ${usual} ms`)
    t.true(cost < maxRatio * Math.max(usual, 1), `${name}: ${cost} ms, usually ${usual} ms`)
  }
})
