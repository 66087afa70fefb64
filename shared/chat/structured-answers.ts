import { GatewayError } from '../base/errors.ts'
import { parseWithCalls } from '../base/exact-numbers.ts'
import { isObject } from '../base/is-object.ts'
import { isOwnTimeout } from '../engine/caller-timeouts.ts'
import { ClientGone } from '../engine/failures.ts'
import type { Bill } from '../engine/report.ts'
import type { SlotOwner } from '../io/fair-slots.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import { outputFormatOf } from '../kinds/messages.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { jsonSchemaOf } from '../providers/toolkit/generate-content-over-chat/schema.ts'
import { schemaChecks } from './schema-checks.ts'

/** What a caller asks for: answers that are checked, or also repaired where only their form is wrong. */
export type StructuredCheck = 'validate' | 'repair'

/** An answer that holds to its format, and what was done: `validated`, `repaired`. */
type FormattedAnswer = { shown: object; marks: string[] }

type Json = Record<string, unknown>
/** A text of an answer, and how another takes its place. */
type AnswerText = { text: string; replace(json: string): void }

/**
 * Holds the whole answers of one run to the format that its request asks for. The second answer that is not valid ends the run:
 * each is paid.
 */
export class StructuredAnswers {
  readonly #owner: SlotOwner
  readonly #kind: DirectKind
  readonly #body: object
  readonly #toPublicError: (error: unknown) => Error
  /** The last answer that was not valid: its error, and what it costs. */
  #violation: { error: unknown; bill: Bill } | null = null

  constructor(owner: SlotOwner, kind: DirectKind, body: object, toPublicError: (error: unknown) => Error) {
    this.#owner = owner
    this.#kind = kind
    this.#body = body
    this.#toPublicError = toPublicError
  }

  /** Checks the answer of a call with this bill. Throws a ProviderError `model_fault`, upon which another target is called; then its public form. */
  async enforce(shown: object, check: StructuredCheck, bill: Bill): Promise<FormattedAnswer> {
    try {
      return await enforceFormat(this.#owner, this.#kind, this.#body, shown, check)
    } catch (thrown) {
      const error = this.#violation ? this.#toPublicError(thrown) : thrown
      this.#violation = { error, bill }
      throw error
    }
  }

  /**
   * The answer that a run failed with, or after which its caller did not wait for another one: its bill, and the error that it was.
   * Null if the run failed with something else.
   */
  paidAfter(error: unknown): { error: unknown; bill: Bill } | null {
    const isCallers = error instanceof ClientGone || (error instanceof GatewayError && isOwnTimeout(error))
    return isCallers || this.#violation?.error === error ? this.#violation : null
  }
}

/**
 * Checks a whole answer against the format that its request asks for (docs/decisions/structured-output.md). A refusal, a
 * call of the client's tools, and an answer that reached its limit are no answers in that format. Throws a ProviderError
 * `model_fault` for one that is not valid.
 */
async function enforceFormat(
  owner: SlotOwner,
  kind: DirectKind,
  body: object,
  shown: object,
  check: StructuredCheck,
): Promise<FormattedAnswer> {
  const { schemaOf, textsOf }: StructuredFormat<DirectKind> = structuredFormats[kind]
  const schema = schemaOf(body as DirectKinds[DirectKind]['request'])
  const formatted = { shown, marks: new Set<string>() }
  for (const [index, { text }] of textsOf(shown as Json).entries()) {
    const checked = await schemaChecks.check(owner, text, schema, check === 'repair')
    if (!checked) return { shown, marks: [] }
    if ('fault' in checked) {
      const message = `The model’s answer is not valid against the schema that was asked for: ${checked.fault}.`
      throw new ProviderError('model_fault', message, {
        modelFault: { code: 'json_validate_failed', generation: text.slice(0, maxGenerationCharacters) },
      })
    }
    formatted.marks.add('validated')
    if (!checked.repaired) continue
    formatted.marks.add('repaired')
    // What the provider sent stays as it is: its text may be passed on.
    if (formatted.shown === shown) formatted.shown = parseWithCalls(JSON.stringify(shown)) as object
    textsOf(formatted.shown as Json)[index]!.replace(checked.json)
  }
  return { shown: formatted.shown, marks: [...formatted.marks] }
}

const maxGenerationCharacters = 64 * 1024

/** Where a dialect has its structured answers. */
type StructuredFormat<K extends DirectKind> = {
  /** The JSON Schema of the answer to a request; null if any JSON object is asked for. */
  schemaOf(body: DirectKinds[K]['request']): unknown
  /** The texts of a whole answer that are in that format. */
  textsOf(answer: Json): AnswerText[]
}

/** Beside the dialects' `ChatFormat`, and not part of it: few requests ask for a format, and only those load this. */
const structuredFormats: { readonly [K in DirectKind]: StructuredFormat<K> } = {
  chat: {
    schemaOf: ({ response_format: format }) => (format?.type === 'json_schema' && format.json_schema.schema) || null,
    textsOf: choiceTexts,
  },
  completion: { schemaOf: () => null, textsOf: choiceTexts },
  embedding: { schemaOf: () => null, textsOf: () => [] },
  messages: { schemaOf: body => outputFormatOf(body)?.schema ?? null, textsOf: messageTexts },
  responses: {
    schemaOf: ({ text }) => (text?.format as Json | undefined)?.schema ?? null,
    textsOf: responseTexts,
  },
  generate_content: {
    schemaOf({ generationConfig: { responseSchema, responseJsonSchema } = {} }) {
      return responseJsonSchema ?? (responseSchema ? jsonSchemaOf(responseSchema) : null)
    },
    textsOf: contentTexts,
  },
}

function choiceTexts({ choices }: Json): AnswerText[] {
  return listOf(choices).flatMap(choice => {
    const message = isObject(choice.message) ? choice.message : {}
    const isOther = listOf(message.tool_calls).length > 0 || message.function_call || message.refusal || message.audio
    if (choice.finish_reason !== 'stop' || isOther) return []
    return [{ text: String(message.content ?? ''), replace: (json: string) => void (message.content = json) }]
  })
}

function messageTexts(answer: Json): AnswerText[] {
  const { stop_reason: reason, content } = answer
  if (reason !== 'end_turn' && reason !== 'stop_sequence') return []
  const blocks = listOf(content)
  return joined(
    blocks,
    blocks.filter(({ type }) => type === 'text'),
    kept => void (answer.content = kept),
  )
}

function responseTexts({ status, output }: Json): AnswerText[] {
  const items = listOf(output)
  if (status !== 'completed' || items.some(({ type }) => String(type).endsWith('_call'))) return []
  return items.flatMap(item => {
    const parts = item.type === 'message' ? listOf(item.content) : []
    const texts = parts.filter(({ type }) => type === 'output_text')
    return texts.length === 0 ? [] : joined(parts, texts, kept => void (item.content = kept))
  })
}

function contentTexts({ candidates }: Json): AnswerText[] {
  return listOf(candidates).flatMap(({ finishReason, content }) => {
    const holder = isObject(content) ? content : {}
    const parts = listOf(holder.parts)
    if (finishReason !== 'STOP' || parts.some(({ functionCall }) => functionCall)) return []
    const texts = parts.filter(({ text, thought }) => typeof text === 'string' && thought !== true)
    return joined(parts, texts, kept => void (holder.parts = kept))
  })
}

/** The one text of several parts; another takes the place of the first, and the others are left out. */
function joined(parts: readonly Json[], texts: readonly Json[], keep: (parts: Json[]) => void): AnswerText[] {
  const text = texts.map(part => part.text).join('')
  const replace = (json: string) => {
    const [first, ...others] = texts
    if (first) first.text = json
    keep(parts.filter(part => !others.includes(part)))
  }
  return [{ text, replace }]
}

function listOf(value: unknown): Json[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}
