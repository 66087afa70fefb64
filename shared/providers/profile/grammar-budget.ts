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
  /** The nodes that contain, or refer to, the one that is counted. */
  readonly #within = new Set<object>()

  constructor(schema: unknown) {
    this.#root = schema
    this.#count(schema)
  }

  /** Counts a node once, however many refer to it. */
  #count(node: unknown): void {
    if (typeof node !== 'object' || node === null || this.isRecursive || this.#counted.has(node)) return
    if (this.#within.has(node) || this.#within.size > maxDepth) {
      this.isRecursive = true
      return
    }
    this.#within.add(node)
    if (isObject(node)) {
      this.#countMembers(node)
      if (typeof node.$ref === 'string') this.#count(this.#target(node.$ref))
    }
    for (const inner of Object.values(node)) this.#count(inner)
    this.#within.delete(node)
    this.#counted.add(node)
  }

  #countMembers({ properties, required, anyOf, oneOf, type }: Schema): void {
    if (isObject(properties)) {
      const names = new Set(Array.isArray(required) ? required : [])
      for (const name of Object.keys(properties)) if (!names.has(name)) this.optional++
    }
    if (Array.isArray(anyOf) || Array.isArray(oneOf) || (Array.isArray(type) && type.length > 1)) this.unions++
  }

  /** What a reference within the schema refers to. */
  #target(reference: string): unknown {
    if (!reference.startsWith('#')) return undefined
    const names = reference.slice(1).split('/').slice(1)
    return names.reduce<unknown>((node, name) => (isObject(node) ? node[name] : undefined), this.#root)
  }
}
