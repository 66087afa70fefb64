/** JSON bodies of up to 10 MiB that cost as much as a text may, each in another way. */

import { maxBodyBytes } from '../../api/body/read-body.ts'

const maxBytes = maxBodyBytes - 4_096

const fill = (unit: string, bytes = maxBytes) => unit.repeat(Math.floor(bytes / Buffer.byteLength(unit)))
const list = (unit: string, count: number) => `[${`${unit},`.repeat(count - 1)}${unit}]`
const listOf = (count: number, unit: (i: number) => string) => `[${Array.from({ length: count }, (_, i) => unit(i))}]`
const objectOf = (count: number, field: (i: number) => string) =>
  `{${Array.from({ length: count }, (_, i) => field(i))}}`
/** As many of a unit as there is room for. */
const listToLimit = (unit: string) => list(unit, Math.floor(maxBytes / (Buffer.byteLength(unit) + 1)))

/** A chat request whose only message says this: JSON used as its content, or text within quotes. */
const chatOf = (content: string) => `{"model":"auto","messages":[{"role":"user","content":${content}}]}`
/** A chat request with a field that no schema knows, so that parsing is all that it costs. */
const withField = (value: string) => `{"model":"auto","messages":[{"role":"user","content":"Hello"}],"extra":${value}}`

const textPart = '{"type":"text","text":"A word; "}'
/** Digits that lie between two numbers, so that all of them must be read to round rightly. */
const halfway = `0.500000000000000166533453693773481063544750213623046875${'0'.repeat(700)}1`

/** One of the smallest numbers there are, and dearest to read. */
const longNumber = '2.4703282292062327208e-324'
/** A field with a name of its own, of 30 characters that are escaped. */
const longName = (j: number, i: number) => `"${j}a${i}${'\\u6f22'.repeat(30)}":0`

export type HostileBody = { kind: 'chat' | 'completion' | 'embedding'; text: () => string }

const chat = (text: () => string): HostileBody => ({ kind: 'chat', text })

export const hostileBodies: Record<string, HostileBody> = {
  // Taken, and as large as they may be.
  'a prompt of 10 MiB': chat(() => chatOf(`"${fill('Prove it; [x] 12.5 = y. ')}"`)),
  'a prompt of 10 MiB, one character not ASCII': chat(() => chatOf(`"漢${fill('Prove it; [x] 12.5 = y. ')}"`)),
  'a prompt of 10 MiB in Chinese': chat(() => chatOf(`"${fill('漢字かな交じり文')}"`)),
  'a prompt of 10 MiB of code': chat(() => chatOf(`"${fill('  const a = \\"b\\"\\n')}"`)),
  'escaped quotes': chat(() => chatOf(`"${fill('\\"')}"`)),
  'escaped quotes, one character not ASCII': chat(() => chatOf(`"漢${fill('\\"')}"`)),
  'quotes far apart, one character not ASCII': chat(() => chatOf(`"漢${fill(`${'a'.repeat(40)}\\"`)}"`)),
  backslashes: chat(() => chatOf(`"${fill('\\\\')}"`)),
  escapes: chat(() => chatOf(`"${fill('\\u0041')}"`)),
  surrogates: chat(() => chatOf(`"${fill('\\ud83d\\ude00')}"`)),
  'an image of 10 MiB': chat(() =>
    chatOf(`[{"type":"image_url","image_url":{"url":"data:image/png;base64,${fill('A')}"}}]`),
  ),
  '16,384 messages': chat(() => `{"model":"auto","messages":${list('{"role":"user","content":"Hello"}', 16_384)}}`),
  '19,000 parts of text': chat(() => chatOf(list(textPart, 19_000))),
  '19,000 parts of text, the last of which is wrong': chat(() => chatOf(`[${list(textPart, 19_000).slice(1, -1)},0]`)),
  '16,384 messages, the last of which is wrong': chat(
    () => `{"model":"auto","messages":[${list('{"role":"user","content":"Hello"}', 16_383).slice(1, -1)},{}]}`,
  ),
  '1,024 tools of 10,000 bytes': chat(
    () =>
      `{"model":"auto","messages":[{"role":"user","content":"Hello"}],"tools":${listOf(1_024, i => `{"type":"function","function":{"name":"f${i}","description":"${fill('word ', 10_000)}"}}`)}}`,
  ),
  '390,000 tokens of a completion': {
    kind: 'completion',
    text: () => `{"model":"x","prompt":${list('54321', 390_000)}}`,
  },
  '390,000 tokens of a completion, the last of which is wrong': {
    kind: 'completion',
    text: () => `{"model":"x","prompt":[${list('54321', 390_000).slice(1, -1)},-1]}`,
  },
  '2,048 inputs of 190 tokens': {
    kind: 'embedding',
    text: () => `{"model":"x","input":${list(list('54321', 190), 2_048)}}`,
  },
  // At the limits of what a text may hold.
  '400,000 zeros': chat(() => withField(list('0', 399_000))),
  '155,000 long numbers': chat(() => withField(list(longNumber, 155_000))),
  '5,400 numbers of 770 digits': chat(() => withField(list(halfway, 5_400))),
  '100,000 empty objects': chat(() => withField(list('{}', 99_900))),
  '100,000 empty lists': chat(() => withField(list('[]', 99_900))),
  '100,000 strings': chat(() => withField(list('""', 99_900))),
  '100,000 strings of 100 bytes': chat(() => withField(listOf(99_900, i => `"${String(i).padStart(100, 'a')}"`))),
  '100,000 strings of 10 bytes': chat(() => withField(listOf(99_900, i => `"${String(i).padStart(8, 'a')}"`))),
  '100,000 strings like integers': chat(() => withField(listOf(99_900, i => `"${i}"`))),
  '49,000 objects of one name': chat(() => withField(listOf(49_000, i => `{"a${i}":0}`))),
  '49,000 objects of the same name': chat(() => withField(list('{"a":0}', 49_000))),
  '5 objects of 9,900 names': chat(() => withField(listOf(5, j => objectOf(9_900, i => `"${j}a${i}":0`)))),
  '5 objects of 9,900 long names': chat(() => withField(listOf(5, j => objectOf(9_900, i => longName(j, i))))),
  '5 objects of 9,900 numbers as names': chat(() =>
    withField(listOf(5, j => objectOf(9_900, i => `"${j * 1_000_000 + i * 97}":0`))),
  ),
  '49 objects of 1,000 names': chat(() => withField(listOf(49, j => objectOf(1_000, i => `"${j}a${i}":0`)))),
  '3,300 objects of 15 long names': chat(() => withField(listOf(3_300, j => objectOf(15, i => longName(j, i))))),
  '49,000 names and 125,000 long numbers': chat(() =>
    withField(`[${listOf(3_250, j => objectOf(15, i => `"${j}a${i}":0`))},${list(longNumber, 125_000)}]`),
  ),
  '830 towers of 120 lists': chat(() => withField(list('['.repeat(120) + ']'.repeat(120), 830))),
  '410 towers of 120 objects': chat(() => withField(list(`${'{"a":'.repeat(120)}0${'}'.repeat(120)}`, 410))),
  // Refused.
  'half a surrogate behind 99,900 strings': chat(() => withField(`[${list('""', 99_900).slice(1, -1)},"\\ud83d"]`)),
  'a field named twice, behind 99,900 lists': chat(() =>
    withField(`[${list('[]', 99_800).slice(1, -1)},{"a":0,"a":0}]`),
  ),
  'a field named twice, behind 99,900 strings': chat(() =>
    withField(`[${list('"a"', 99_800).slice(1, -1)},{"a":0,"a":0}]`),
  ),
  'a field named twice, behind 10 MiB of escapes': chat(() => withField(`["${fill('\\u0041')}",{"a":0,"a":0}]`)),
  'a field of 5 MiB named twice': chat(() =>
    withField(`{"${fill('a', maxBytes / 2)}":0,"${fill('a', maxBytes / 2)}":0}`),
  ),
  'a field of 5 MiB of escapes named twice': chat(() =>
    withField(`{"${fill('\\u00e9', maxBytes / 2)}":0,"${fill('\\u00e9', maxBytes / 2)}":0}`),
  ),
  'a field named twice, behind 9,900 others': chat(() =>
    withField(`{${listOf(9_900, i => `"a${i}":0`).slice(1, -1)},"a0":0}`),
  ),
  '10 MiB of lists that never end': chat(() => fill('[')),
  '10 MiB of empty objects': chat(() => listToLimit('{}')),
  '10 MiB of zeros': chat(() => listToLimit('0')),
  '10 MiB of strings': chat(() => listToLimit('""')),
  '10 MiB of small objects': chat(() => listToLimit('{"a":0}')),
  'a name of 10 MiB': chat(() => `{"${fill('a')}":0}`),
  'a name of 10 MiB of escapes': chat(() => `{"${fill('\\u00e9')}":0}`),
  'a number of 10 MiB': chat(() => withField(fill('7'))),
  'a fraction of 10 MiB': chat(() => withField(`0.${fill('3')}`)),
  '10 MiB of spaces': chat(() => withField(`${fill(' ')}1`)),
  'colons after a long name': chat(() => `{"${fill('\\\\', maxBytes / 2)}"${fill(':', maxBytes / 2)}`),
  'text that is not UTF-8 at its end': chat(() => `${chatOf(`"${fill('漢')}"`)}\ud800`),
}
