import fc from 'fast-check'

/** How JSON is written: a seed of the order of members and of the escaped characters, and what is put between all parts. */
export type Spelling = { seed: number; pad: string; escapes: boolean }

export const spellings: fc.Arbitrary<Spelling> = fc.record({
  seed: fc.nat(),
  pad: fc.constantFrom('', ' ', '\n\t', '\r\n  '),
  escapes: fc.boolean(),
})

/** A value as JSON in another spelling: JSON.parse reads the same of it. */
export function respell(value: unknown, { seed, pad, escapes }: Spelling): string {
  let state = seed
  const random = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
  const text = (plain: string) =>
    escapes ? JSON.stringify(plain).replace(token, one => escaped(one, random())) : JSON.stringify(plain)
  const join = (parts: string[]) => `${pad}${parts.join(`${pad},${pad}`)}${pad}`
  const write = (json: unknown): string => {
    if (typeof json === 'string') return text(json)
    if (typeof json !== 'object' || json === null) return JSON.stringify(json)
    if (Array.isArray(json)) return `[${join(json.map(write))}]`
    const members = Object.entries(json).filter(([, member]) => member !== undefined)
    const order = members.map(member => ({ member, at: random() })).sort((a, b) => a.at - b.at)
    return `{${join(order.map(({ member: [name, member] }) => `${text(name)}${pad}:${pad}${write(member)}`))}}`
  }
  return pad + write(value) + pad
}

/** A character of a string in JSON, or the escape that it is written as. */
const token = /\\u[\da-f]{4}|\\.|[^"\\]/gu

/** One in eight is escaped, as some encoders do for `/` and `+`. */
function escaped(one: string, random: number): string {
  if (random > 1 / 8) return one
  const plain = one.startsWith('\\') ? (JSON.parse(`"${one}"`) as string) : one
  if (plain === '/' && random < 1 / 16) return '\\/'
  const codes = plain.split('').map(unit => unit.charCodeAt(0).toString(16).padStart(4, '0'))
  return codes.map(code => `\\u${random < 1 / 16 ? code : code.toUpperCase()}`).join('')
}
