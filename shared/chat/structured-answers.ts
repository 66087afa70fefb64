import { isObject } from '../base/is-object.ts'
import type { Bill } from '../engine/report.ts'
import type { ChatRequest } from '../kinds/chat.ts'
import type { GenerateContentRequest } from '../kinds/generate-content.ts'
import type { DirectKind } from '../kinds/index.ts'
import { type MessagesRequest, outputFormatOf } from '../kinds/messages.ts'
import type { ResponsesRequest } from '../kinds/responses.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { jsonSchemaOf } from '../providers/toolkit/generate-content-over-chat/schema.ts'
import { schemaChecks } from './schema-checks.ts'

/** What a caller asks for: answers that are checked, or also repaired where only their form is wrong. */
export type StructuredWish = 'validate' | 'repair'

/** An answer that holds to its format, and what was done: `validated`, `repaired`. */
type HeldAnswer = { shown: object; marks: string[] }

type Json = Record<string, unknown>
/** A text of an answer, and how another takes its place. */
type AnswerText = { text: string; replace(json: string): void }

/**
 * Holds the whole answers of one run to the format that its request asks for. The second answer that is not valid ends the run:
 * each is paid.
 */
export class StructuredAnswers {
  readonly #kind: DirectKind
  readonly #body: object
  readonly #toPublicError: (error: unknown) => Error
  /** The last answer that was not valid: its error, and what it costs. */
  #violation: { error: unknown; bill: Bill } | null = null

  constructor(kind: DirectKind, body: object, toPublicError: (error: unknown) => Error) {
    this.#kind = kind
    this.#body = body
    this.#toPublicError = toPublicError
  }

  /** Checks the answer of a call with this bill. Throws a ProviderError `model_fault`, upon which another target is called; then its public form. */
  async hold(shown: object, wish: StructuredWish, bill: Bill): Promise<HeldAnswer> {
    try {
      return await holdToFormat(this.#kind, this.#body, shown, wish)
    } catch (thrown) {
      const error = this.#violation ? this.#toPublicError(thrown) : thrown
      this.#violation = { error, bill }
      throw error
    }
  }

  /** The bill of the answer that a run failed with; undefined if it failed with something else. */
  billOf(error: unknown): Bill | undefined {
    return this.#violation?.error === error ? this.#violation?.bill : undefined
  }
}

/**
 * Checks a whole answer against the format that its request asks for (docs/decisions/structured-output.md). A refusal, a
 * call of the client's tools, and an answer that reached its limit are no answers in that format. Throws a ProviderError
 * `model_fault` for one that is not valid.
 */
async function holdToFormat(kind: DirectKind, body: object, shown: object, wish: StructuredWish): Promise<HeldAnswer> {
  const schema = schemaIn(kind, body)
  const held = { shown, marks: new Set<string>() }
  for (const [index, { text }] of textsOf(kind, shown).entries()) {
    const checked = await schemaChecks.check(text, schema, wish === 'repair')
    if (!checked) return { shown, marks: [] }
    if ('fault' in checked) {
      const message = `The model’s answer is not valid against the schema that was asked for: ${checked.fault}.`
      throw new ProviderError('model_fault', message, {
        modelFault: { code: 'json_validate_failed', generation: text.slice(0, maxGenerationCharacters) },
      })
    }
    held.marks.add('validated')
    if (!checked.repaired) continue
    held.marks.add('repaired')
    // What the provider sent stays as it is: its text may be passed on.
    if (held.shown === shown) held.shown = structuredClone(shown)
    textsOf(kind, held.shown)[index]!.replace(checked.json)
  }
  return { shown: held.shown, marks: [...held.marks] }
}

const maxGenerationCharacters = 64 * 1024

/** The JSON Schema of an answer; null if any JSON object is asked for. */
function schemaIn(kind: DirectKind, body: object): unknown {
  if (kind === 'messages') return outputFormatOf(body as MessagesRequest)?.schema ?? null
  if (kind === 'responses') return ((body as ResponsesRequest).text?.format as Json | undefined)?.schema ?? null
  if (kind === 'generate_content') {
    const { responseSchema, responseJsonSchema } = (body as GenerateContentRequest).generationConfig ?? {}
    return responseJsonSchema ?? (responseSchema ? jsonSchemaOf(responseSchema) : null)
  }
  const { response_format: format } = body as ChatRequest
  return (format?.type === 'json_schema' && format.json_schema.schema) || null
}

function textsOf(kind: DirectKind, answer: object): AnswerText[] {
  if (kind === 'messages') return messageTexts(answer as Json)
  if (kind === 'responses') return responseTexts(answer as Json)
  return kind === 'generate_content' ? contentTexts(answer as Json) : choiceTexts(answer as Json)
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
