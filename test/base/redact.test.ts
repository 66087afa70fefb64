import test from 'ava'
import { redact, withoutFiles } from '../../shared/base/redact.ts'

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
  }
  for (const [name, unit] of Object.entries(units)) {
    const cost = leastCostMs(unit.repeat(Math.ceil(bytes / unit.length)))
    t.true(cost < maxRatio * Math.max(usual, 1), `${name}: ${cost} ms, usually ${usual} ms`)
  }
})
