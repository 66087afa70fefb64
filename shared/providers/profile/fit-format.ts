import { fitSchema } from './fit-schema.ts'
import type { Fitting } from './fitting.ts'

/** Fits the format of the answer. */
export function fitFormat(fitting: Fitting): void {
  const { response_format: format, tools, stream } = fitting.body
  if (!format || format.type === 'text') return
  const { tools_with_format: withTools, stream_with_format: withStream, schema_format, schema } = fitting.profile
  if (tools && !withTools) throw fitting.refusal('response_format', 'This model takes no JSON format beside tools.')
  if (format.type === 'json_schema' && !schema_format)
    throw fitting.refusal('response_format', 'This model takes no JSON schema for its answer at this provider.')
  if (stream && !withStream && format.type === 'json_schema')
    throw fitting.refusal('response_format', 'This model streams no answer by JSON schema.')
  if (format.type !== 'json_schema' || !format.json_schema.schema) return
  const given = format.json_schema.schema
  // What OpenAI requires of a tool's parameters does not apply to the schema of an answer.
  if (schema === 'with_properties') return
  const fitted = fitSchema(given, schema)
  if (fitted.schema === given) return
  const value = { ...format, json_schema: { ...format.json_schema, schema: fitted.schema } }
  if (fitted.losesMeaning) fitting.adjust('response_format', value)
  else fitting.set({ response_format: value })
}
