import fc from 'fast-check'
import { type Line, splitLines } from '../../shared/io/lines.ts'
import { fuzzRuns } from '../support/fuzz.ts'
import { test } from '../support/test.ts'

const max = 1024

async function read(parts: Iterable<Uint8Array>, maxBytes = max, from?: { line: number; byte: number }) {
  const body = async function* () {
    for (const part of parts) {
      yield part
      // The reader of a body may reuse the memory of a part.
      part.fill(0)
    }
  }
  const lines: Line[] = []
  for await (const group of splitLines(body(), maxBytes, from)) lines.push(...group)
  return lines
}

const texts = (lines: Line[]) => lines.map(({ bytes }) => bytes?.toString() ?? null)
const read1 = async (text: string, maxBytes?: number) => texts(await read([Buffer.from(text)], maxBytes))

test('lines end at line feeds only; all other bytes are theirs', async t => {
  t.deepEqual(await read1('a\nb\nc'), ['a', 'b', 'c'])
  t.deepEqual(await read1('a\r\nb\rc\r\n'), ['a\r', 'b\rc\r'])
  t.deepEqual(await read1('a\u2028b\u0085c\vd\n'), ['a\u2028b\u0085c\vd'])
  t.deepEqual(await read1('\ufeffa\n'), ['\ufeffa'])
})

test('a line feed at the end begins no line, and an empty body has none', async t => {
  t.deepEqual(await read1('a\n'), ['a'])
  t.deepEqual(await read1('a\n\n'), ['a', ''])
  t.deepEqual(await read1('\n\na'), ['', '', 'a'])
  t.deepEqual(await read1('\n'), [''])
  t.deepEqual(await read1(''), [])
  t.deepEqual(await read([]), [])
  t.deepEqual(await read([Buffer.alloc(0), Buffer.alloc(0)]), [])
})

test('a line of the longest length is whole; a longer one has a number and an end, and no bytes', async t => {
  t.deepEqual(await read1('12345\n123456\n1\n', 5), ['12345', null, '1'])
  t.deepEqual(await read1('1\n123456', 5), ['1', null])
  const parts = ['123', '45', '6', '789\n', '12345', '\n', '1'].map(text => Buffer.from(text))
  const lines = await read(parts, 5)
  t.deepEqual(texts(lines), [null, '12345', '1'])
  t.deepEqual(
    lines.map(({ number, end }) => [number, end]),
    [
      [1, 10],
      [2, 16],
      [3, 17],
    ],
  )
})

test('a reader that stops closes the body', async t => {
  let closed = false
  const body = async function* () {
    try {
      for (;;) yield Buffer.from('line\n')
    } finally {
      closed = true
    }
  }
  for await (const [line] of splitLines(body(), max)) if (line!.number === 3) break
  t.true(closed)
})

test('a body that breaks off breaks its lines off', async t => {
  const body = async function* () {
    yield Buffer.from('a\nb')
    throw new Error('reset')
  }
  const seen: string[] = []
  const reading = async () => {
    for await (const group of splitLines(body(), max)) seen.push(...group.map(({ bytes }) => String(bytes)))
  }
  await t.throwsAsync(reading, { message: 'reset' })
  t.deepEqual(seen, ['a'])
})

test('however a body is cut, its lines are those of the whole, and each can be begun from', async t => {
  const pieces = fc.constantFrom('\n', '\r\n', '"ä€𝕏"', '{"a":1}', ' ', '\0', 'x'.repeat(40))
  const bodies = fc.oneof(
    fc.array(pieces, { maxLength: 60 }).map(all => Buffer.from(all.join(''))),
    fc.uint8Array({ max: 14, maxLength: 200 }).map(bytes => Buffer.from(bytes)),
  )
  const property = fc.asyncProperty(bodies, fc.array(fc.nat(300)), fc.nat(80), async (body, cuts, maxBytes) => {
    const lines = await read(cutUp(body, cuts), maxBytes)
    const expected = body.toString('latin1').split('\n')
    if (expected.at(-1) === '') expected.pop()
    t.deepEqual(
      lines.map(({ bytes }) => bytes?.toString('latin1') ?? null),
      expected.map(line => (line.length > maxBytes ? null : line)),
    )
    t.deepEqual(
      lines.map(({ number }) => number),
      expected.map((_, index) => index + 1),
    )
    for (const { number, end } of lines) {
      const rest = await read(cutUp(body.subarray(end), cuts), maxBytes, { line: number + 1, byte: end })
      t.deepEqual(rest, lines.slice(number))
    }
  })
  await fc.assert(property, { numRuns: fuzzRuns(300) })
})

/** Copies of the parts of a body that is cut at some places. */
function cutUp(body: Buffer, cuts: number[]): Uint8Array[] {
  const places = [0, ...cuts.filter(cut => cut < body.length).sort((a, b) => a - b), body.length]
  return places.slice(1).map((end, index) => Uint8Array.from(body.subarray(places[index], end)))
}
