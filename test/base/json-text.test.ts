import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { GatewayError } from '../../shared/base/errors.ts'
import { parseJson } from '../../shared/base/json.ts'
import { fuzzRuns } from '../support/fuzz.ts'
import { test } from '../support/test.ts'

/** What a text says, put down beside the text itself. */
type Written = {
  json: string
  value: unknown
  isRepeated: boolean
  isDisguised: boolean
  isBroken: boolean
}

const characters = ['a', '0', '_', '"', '\\', '{', ':', ',', 'é', '漢', '😀', '\n', '\ud800']
/** A character as it is or as an escape, where both are JSON. */
const character = fc.tuple(fc.constantFrom(...characters), fc.boolean()).map(([plain, escaped]) => ({
  plain,
  json: escaped
    ? [...Array(plain.length).keys()].map(i => `\\u${plain.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')
    : JSON.stringify(plain).slice(1, -1),
}))
/** A name that is a single escape of an ASCII character is refused; a backslash needs one. */
const isLoneEscape = ({ plain, json }: { plain: string; json: string }) =>
  json !== plain && json !== '\\\\' && plain.charCodeAt(0) < 0x80
const text = fc
  .oneof({ weight: 4, arbitrary: fc.array(character, { maxLength: 5 }) }, fc.array(character, { minLength: 40 }))
  .map(parts => ({
    value: parts.map(({ plain }) => plain).join(''),
    json: `"${parts.map(({ json }) => json).join('')}"`,
    isDisguised:
      parts.some(({ plain, json }) => json.length > 2 && /\w/.test(plain)) ||
      (parts.length === 1 && isLoneEscape(parts[0]!)),
  }))
const space = fc.constantFrom('', '', ' ', '\n\t')

function of(json: string, value: unknown, inside: Written[] = []): Written {
  return {
    json,
    value,
    isRepeated: inside.some(({ isRepeated }) => isRepeated),
    isDisguised: inside.some(({ isDisguised }) => isDisguised),
    isBroken: inside.some(({ isBroken }) => isBroken) || (typeof value === 'string' && !value.isWellFormed()),
  }
}

const { document } = fc.letrec<{ document: Written }>(tie => ({
  document: fc.oneof(
    { maxDepth: 4, depthSize: 'medium' },
    fc.constantFrom(of('0', 0), of('-1.5e3', -1500), of('true', true), of('null', null)),
    text.map(({ json, value }) => of(json, value)),
    fc.tuple(space, fc.array(tie('document'), { maxLength: 4 })).map(([pad, items]) => {
      const json = `[${pad}${items.map(({ json }) => json).join(`${pad},`)}${pad}]`
      return of(
        json,
        items.map(({ value }) => value),
        items,
      )
    }),
    fc.tuple(space, fc.array(fc.tuple(text, tie('document')), { maxLength: 4 })).map(([pad, members]) => {
      const json = `{${pad}${members.map(([name, { json }]) => `${name.json}${pad}:${pad}${json}`).join(`${pad},${pad}`)}}`
      const value = Object.fromEntries(members.map(([name, { value }]) => [name.value, value]))
      const whole = of(
        json,
        value,
        members.map(([, member]) => member),
      )
      whole.isRepeated ||= Object.keys(value).length < members.length
      whole.isDisguised ||= members.some(([name]) => name.isDisguised)
      whole.isBroken ||= members.some(([name]) => !name.value.isWellFormed())
      return whole
    }),
  ),
}))

/** The code with which a text is refused; null for one that is taken. */
function refusal(json: string): { code: string; message: string } | null {
  try {
    parseJson(Buffer.from(json))
    return null
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
}

/** Lone surrogates that are written as they are do not reach UTF-8. */
function isEncodable(json: string): boolean {
  return json.isWellFormed()
}

test('a text is read as it was written, or refused for what is wrong with it', t => {
  const numRuns = fuzzRuns(3_000)
  const seen = { taken: 0, repeated: 0, disguised: 0, broken: 0 }
  const property = fc.property(
    document.filter(({ json }) => isEncodable(json)),
    ({ json, value, isRepeated, isDisguised, isBroken }) => {
      const refused = refusal(json)
      if (isRepeated) {
        seen.repeated++
        // A name with escapes may be refused for them first.
        t.regex(String(refused?.message), json.includes('\\u') ? /twice|by escapes/ : /twice/, json)
      } else if (isDisguised) {
        seen.disguised++
        t.is(refused?.code, 'invalid_json', json)
      } else if (isBroken) {
        seen.broken++
        t.regex(String(refused?.message), /lone surrogate/, json)
      } else {
        seen.taken++
        t.true(isDeepStrictEqual(parseJson(Buffer.from(json)), value), json)
      }
    },
  )
  fc.assert(property, { numRuns })
  t.true(
    Object.values(seen).every(count => count > numRuns / 150),
    JSON.stringify(seen),
  )
})

test('a damaged text is taken only where JSON.parse takes it, and read alike', t => {
  const cut = fc.tuple(fc.nat(), fc.nat(3), fc.constantFrom('', '"', '\\', ':', ',', '{', '}', '[', ']', '0', 'é'))
  const damaged = fc
    .tuple(document, cut)
    .map(([{ json }, [at, removed, inserted]]) => {
      const place = at % (json.length + 1)
      return json.slice(0, place) + inserted + json.slice(place + removed)
    })
    .filter(json => json !== '' && isEncodable(json))
  const property = fc.property(damaged, json => {
    let value: unknown
    let isJson = true
    try {
      value = JSON.parse(json)
    } catch {
      isJson = false
    }
    const refused = refusal(json)
    if (!isJson) t.regex(String(refused?.message), /is not valid JSON/, json)
    else if (refused) t.regex(refused.message, /twice|by escapes|lone surrogate/, json)
    else t.true(isDeepStrictEqual(parseJson(Buffer.from(json)), value), json)
  })
  fc.assert(property, { numRuns: fuzzRuns(3_000) })
})

test('a name that is one escape is read as its character, beside names that were read before', t => {
  for (const [name, character] of [
    ['\\u6f22', '漢'],
    ['\\u00e9', 'é'],
    ['\\ud83d\\ude00', '😀'],
    ['\\\\', '\\'],
  ] as const)
    for (const before of ['漢', '\\\\', 'a', '\\ud83d\\ude00'])
      t.deepEqual(parseJson(Buffer.from(`[{"${before}":1},{"${name}":"\\u6f22\\\\u6f22"}]`)), [
        { [JSON.parse(`["${before}"]`)[0]]: 1 },
        { [character]: '漢\\u6f22' },
      ])
  for (const name of ['\\n', '\\"', '\\/', '\\u003a', '\\u005c'])
    t.regex(String(refusal(`{"${name}":1}`)?.message), /by escapes/, name)
})
