import type { z } from 'zod'
import { isFalseText } from '../../shared/kinds/refused-field.ts'
import { omittedFieldsExcept } from '../../shared/providers/toolkit/request-fields.ts'

/**
 * The fields of a body that its schema has, and the names of the others whose omission the caller may notice. The others
 * were not checked: one may have the name of a field that another route has, so what reads the body must not meet it.
 */
export function knownFields<Body extends object>(
  { shape }: z.ZodObject,
  body: Body,
): { body: Body; dropped: readonly string[] } {
  const others = Object.entries(body).filter(([name]) => !Object.hasOwn(shape, name))
  if (others.length === 0) return { body, dropped: [] }
  const known = Object.entries(body).filter(([name]) => Object.hasOwn(shape, name))
  const asking = Object.fromEntries(others.filter(([, value]) => !isFalseText(value)))
  // A form has lists as `name[]` and objects as `name[key]`.
  const dropped = omittedFieldsExcept(asking, new Set()).map(name => name.split('[', 1)[0]!)
  return { body: Object.fromEntries(known) as Body, dropped: [...new Set(dropped)] }
}
