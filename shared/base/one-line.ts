import type { z } from 'zod'

/** Control characters, line separators, and bidirectional control marks. */
export const unprintable = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u

/** A text that people see in lists, emails and logs, such as a name: one line that reads as it is written. */
export function oneLine(schema: z.ZodString): z.ZodString {
  return schema.refine(text => !unprintable.test(text), 'must be one line, without control characters')
}
