import type { z } from 'zod'

/**
 * Clients say some things in another form than the one that a schema describes: a URL in place of the object that has
 * it, another API's name of the same value. `validateRequest` writes such a value in the schema's form before it is
 * validated, also in the text that is forwarded, so that no reader and no provider meets the other form. The schema
 * itself stays as it is described, and refuses the other form; bodies in its form are not walked.
 */
type ToSchemaForm = (value: unknown) => unknown

const otherForms = new WeakMap<z.core.$ZodType, ToSchemaForm>()

/**
 * A schema that takes other forms of its values in requests. `toSchemaForm` returns any other value itself. The result
 * may be wrapped (`.optional()`), but not copied (`.describe()`).
 */
export function alsoTaking<T extends z.ZodType>(schema: T, toSchemaForm: ToSchemaForm): T {
  otherForms.set(schema, toSchemaForm)
  return schema
}

/** What writes a value in the form of a schema; undefined if the schema takes no other form. */
export function otherFormOf(schema: z.core.$ZodType): ToSchemaForm | undefined {
  return otherForms.get(schema)
}
