import { isObject } from '../../base/is-object.ts'
import type { ChatProfile } from '../../catalog/chat-profile.ts'
import type { Schema } from './schema-nodes.ts'

type Limits = NonNullable<ChatProfile['grammar_limits']>

/** Deeper schemas count as recursive. */
const maxDepth = 128

/**
 * What one request's schemas that are compiled to a grammar come to, in the units that Anthropic limits: "Too many strict tools",
 * "too many optional parameters", "too many parameters with union types" (camel-ai/camel#4171, elie222/inbox-zero#2323); recursive
 * schemas are refused (platform.claude.com, structured outputs). That a grammar is too large shows only when it is compiled.
 */
export class GrammarBudget {
  readonly #limits: Limits
  #tools = 0
  #optional = 0
  #unions = 0

  constructor(limits: Limits) {
    this.#limits = limits
  }

  /** Takes the schema of a tool or of the answer into the request; false, and nothing is taken, where it does not fit. */
  add(schema: unknown, of: 'tool' | 'answer'): boolean {
    const size = new SchemaSize(schema)
    const tools = this.#tools + (of === 'tool' ? 1 : 0)
    const optional = this.#optional + size.optional
    const unions = this.#unions + size.unions
    const { tools: maxTools, optional_properties: maxOptional, unions: maxUnions } = this.#limits
    if (size.isRecursive || tools > maxTools || optional > maxOptional || unions > maxUnions) return false
    this.#tools = tools
    this.#optional = optional
    this.#unions = unions
    return true
  }
}

class SchemaSize {
  /** Properties that are not required, in all objects of the schema. */
  optional = 0
  unions = 0
  isRecursive = false
  readonly #root: unknown
  readonly #counted = new Set<object>()

  constructor(schema: unknown) {
    this.#root = schema
    this.#count(schema, [])
  }

  #count(node: unknown, within: readonly object[]): void {
    if (typeof node !== 'object' || node === null || this.isRecursive) return
    if (within.includes(node) || within.length > maxDepth) {
      this.isRecursive = true
      return
    }
    const path = [...within, node]
    if (isObject(node) && typeof node.$ref === 'string') this.#count(this.#target(node.$ref), path)
    if (this.#counted.has(node)) return
    this.#counted.add(node)
    if (isObject(node)) this.#countMembers(node)
    for (const inner of Object.values(node)) this.#count(inner, path)
  }

  #countMembers({ properties, required, anyOf, oneOf, type }: Schema): void {
    if (isObject(properties))
      for (const name of Object.keys(properties))
        if (!Array.isArray(required) || !required.includes(name)) this.optional++
    if (Array.isArray(anyOf) || Array.isArray(oneOf) || (Array.isArray(type) && type.length > 1)) this.unions++
  }

  /** What a reference within the schema refers to. */
  #target(reference: string): unknown {
    if (!reference.startsWith('#')) return undefined
    const names = reference.slice(1).split('/').slice(1)
    return names.reduce<unknown>((node, name) => (isObject(node) ? node[name] : undefined), this.#root)
  }
}
