import type { z } from 'zod'
import { validateRequest } from '../../shared/base/validate.ts'
import { directKinds } from '../../shared/kinds/index.ts'
import { countTokensRequest } from '../../shared/kinds/messages.ts'
import { countInputRequest } from '../../shared/kinds/responses.ts'
import { test } from '../support/test.ts'

type Schema = z.core.$ZodType
type Json = Record<string, unknown>
/** Two bodies that differ in one optional member: in one it is null, in the other absent. */
type Pair = { path: string; withNull: unknown; without: unknown }

const defOf = (schema: Schema) => (schema._zod as z.core.$ZodTypes['_zod']).def
const isOptional = (schema: Schema) => schema._zod.optin === 'optional'

/** The smallest value that fits a schema. */
function smallest(schema: Schema): unknown {
  const def = defOf(schema)
  switch (def.type) {
    case 'string':
      return 'x'
    case 'number':
      return 1
    case 'boolean':
      return true
    case 'literal':
    case 'enum':
      return [...schema._zod.values!][0]
    case 'array':
      return [smallest(def.element)]
    case 'record':
      return {}
    case 'union':
      return smallest(def.options[0]!)
    case 'optional':
    case 'nullable':
      return smallest(def.innerType)
    case 'object':
      return Object.fromEntries(
        Object.entries(def.shape).flatMap(([name, member]) => (isOptional(member) ? [] : [[name, smallest(member)]])),
      )
    default:
      throw new Error(`no value of ${def.type}`)
  }
}

function* pairsOf(schema: Schema, path = ''): Generator<Pair> {
  const def = defOf(schema)
  if (def.type === 'optional' || def.type === 'nullable') yield* pairsOf(def.innerType, path)
  if (def.type === 'union') for (const option of def.options) yield* pairsOf(option, path)
  if (def.type === 'array')
    for (const pair of pairsOf(def.element, `${path}[]`))
      yield { ...pair, withNull: [pair.withNull], without: [pair.without] }
  if (def.type !== 'object') return
  const base = smallest(schema) as Json
  for (const [name, member] of Object.entries(def.shape)) {
    const at = path === '' ? name : `${path}.${name}`
    if (isOptional(member)) yield { path: at, withNull: { ...base, [name]: null }, without: base }
    for (const { path: deeper, withNull, without } of pairsOf(member, at))
      yield { path: deeper, withNull: { ...base, [name]: withNull }, without: { ...base, [name]: without } }
  }
}

/** Without the nulls that a schema permits. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).filter(([, member]) => member !== null)
  return Object.fromEntries(members.map(([name, member]) => [name, plain(member)]))
}

const schemas = { ...directKinds, 'token count': countTokensRequest, 'input token count': countInputRequest }
for (const [kind, schema] of Object.entries(schemas))
  test(`valid ${kind} request: null for any optional member, at any depth, is as absent, in its text too`, t => {
    let count = 0
    for (const { path, withNull, without } of pairsOf(schema as z.ZodType)) {
      const text = Buffer.from(JSON.stringify(withNull))
      const { body, raw } = validateRequest(schema as z.ZodType, withNull, text)
      t.deepEqual(plain(body), without, path)
      t.deepEqual(JSON.parse(raw.toString()), body, path)
      count++
    }
    t.true(count > 10)
  })

test('400: null for a required member is refused as before', t => {
  const message = { role: 'user', content: null }
  const bodies = [
    { model: null, messages: [message] },
    { model: 'x', messages: [message] },
  ]
  for (const body of bodies) t.throws(() => validateRequest(directKinds.chat as z.ZodType, body, null))
})

test('valid: what an optional member holds keeps its nulls, and its characters, where these are values', t => {
  const parameters = { type: 'object', properties: { a: { enum: [null, 1], default: null } } }
  const tools = [{ type: 'function', function: { name: 'f', parameters, description: null } }]
  const text = `{"model":"x", "messages":[{"role":"user","content":"1.0"}],"seed":1.0,"user":null,"tools":${JSON.stringify(tools)}}`
  const { body, raw } = validateRequest(directKinds.chat, JSON.parse(text), Buffer.from(text))
  t.deepEqual(body.tools, [{ type: 'function', function: { name: 'f', parameters } }])
  t.true(raw.toString().startsWith('{"model":"x", "messages":[{"role":"user","content":"1.0"}],"seed":1.0,"tools":'))
})
