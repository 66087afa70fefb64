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

const elsewhere = refusedField('belongs to the format `json_schema`', () => false)

/**
 * The `response_format` of a chat completion. Other APIs have the schema in `json_object`: as `schema` Together and Anyscale
 * (docs.together.ai/docs/json-mode, docs.anyscale.com/endpoints/text-generation/json-mode), with llama-cpp-python,
 * fireworks-ai (`ResponseFormat.schema`) and LangChain's `ChatHuggingFace`; as `value` huggingface_hub, which writes so what it
 * is given as `json_schema` (hf_inference.py), or with the type `json` (`InferenceClient.chat_completion`). OpenAI refuses
 * it there (spring-projects/spring-ai#2969), and translations would lose it.
 */
export const answerFormat = alsoTaking(
  z.discriminatedUnion('type', [
    z.looseObject({ type: z.literal('text') }).meta({ id: 'ResponseFormatText' }),
    z
      .looseObject({ type: z.literal('json_object'), schema: elsewhere, value: elsewhere })
      .meta({ id: 'ResponseFormatJsonObject' }),
    z.looseObject({ type: z.literal('json_schema'), json_schema: jsonSchema }).meta({ id: 'ResponseFormatJsonSchema' }),
  ]),
  withSchemaInItsFormat,
)

function withSchemaInItsFormat(format: unknown): unknown {
  if (!isObject(format) || (format.type !== 'json_object' && format.type !== 'json')) return format
  const { schema, value, ...others } = format
  const given = schema ?? value
  if (given == null) return { ...others, type: 'json_object' }
  return { ...others, type: 'json_schema', json_schema: { name: defaultName, schema: given } }
}
