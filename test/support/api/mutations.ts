import fc from 'fast-check'

// An object with its own `toString` throws where it is made a text.
const oddities: unknown[] = [
  0,
  -1,
  1.5,
  1e308,
  -0,
  2 ** 53,
  '',
  '\0',
  '\ud800',
  '𝕏',
  null,
  true,
  false,
  [],
  {},
  [[]],
  [null],
  { toString: 1 },
]
const names = [
  '__proto__',
  'constructor',
  'toString',
  'length',
  '',
  'a.b',
  '0',
  'model',
  'stream',
  'n',
  'content',
  'type',
]
const value = fc.oneof(
  fc.constantFrom<unknown>(...oddities),
  fc.jsonValue({ maxDepth: 3 }),
  fc.string({ unit: 'binary' }),
)
/** A change somewhere inside of a JSON value. */
export const mutation = fc.record({
  // Chooses a place in the body by walking it with these numbers.
  walk: fc.array(fc.nat(50), { minLength: 1, maxLength: 5 }),
  action: fc.constantFrom('replace' as const, 'remove' as const, 'add' as const),
  name: fc.oneof(fc.constantFrom(...names), fc.string()),
  value,
})
export type Mutation = typeof mutation extends fc.Arbitrary<infer M> ? M : never

/** Applies a mutation somewhere inside `body`. */
export function mutate(body: object, { walk, action, name, value: shared }: Mutation): void {
  const value = structuredClone(shared)
  let here = body as Record<string, unknown>
  for (const [depth, step] of walk.entries()) {
    const fields = Object.keys(here)
    const field = fields[step % Math.max(1, fields.length)]
    const inside = field === undefined ? undefined : here[field]
    if (depth < walk.length - 1 && typeof inside === 'object' && inside !== null) {
      here = inside as Record<string, unknown>
      continue
    }
    const adding = action === 'add' || field === undefined
    if (adding && Array.isArray(here)) here.push(value)
    else if (adding) Object.defineProperty(here, name, { ...plain, value })
    else if (action === 'replace') here[field] = value
    else delete here[field]
    return
  }
}
const plain = { enumerable: true, configurable: true, writable: true }
