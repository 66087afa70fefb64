import { z } from 'zod'
import { isObject } from '../base/is-object.ts'
import { alsoTaking } from '../base/other-forms.ts'
import { refusedField } from './refused-field.ts'

/** What a schema without a name is called. */
const defaultName = 'answer'

/** The name may be absent for Perplexity's clients (@ai-sdk/perplexity, getArgs); other providers need one. */
const jsonSchema = alsoTaking(
  z.looseObject({
    name: z.string().min(1),
    description: z.string().optional(),
    schema: z.record(z.string(), z.unknown()).optional(),
    strict: z.boolean().optional(),
  }),
  value => (isObject(value) && value.name == null ? { ...value, name: defaultName } : value),
)

/**
 * The `response_format` of a chat completion. Together and Anyscale have the schema in `json_object`
 * (docs.together.ai/docs/json-mode, docs.anyscale.com/endpoints/text-generation/json-mode), and so have llama-cpp-python,
 * fireworks-ai (`ResponseFormat.schema`) and LangChain's `ChatHuggingFace`. OpenAI refuses it there
 * (spring-projects/spring-ai#2969), and translations would lose it.
 */
export const answerFormat = alsoTaking(
  z.discriminatedUnion('type', [
    z.looseObject({ type: z.literal('text') }).meta({ id: 'ResponseFormatText' }),
    z
      .looseObject({
        type: z.literal('json_object'),
        schema: refusedField('belongs to the format `json_schema`', () => false),
      })
      .meta({ id: 'ResponseFormatJsonObject' }),
    z.looseObject({ type: z.literal('json_schema'), json_schema: jsonSchema }).meta({ id: 'ResponseFormatJsonSchema' }),
  ]),
  withSchemaInItsFormat,
)

function withSchemaInItsFormat(value: unknown): unknown {
  if (!isObject(value) || value.type !== 'json_object' || !('schema' in value)) return value
  const { schema, ...format } = value
  if (schema === null) return format
  return { ...format, type: 'json_schema', json_schema: { name: defaultName, schema } }
}
