import { z } from 'zod'
import { asText } from '../base/as-text.ts'

/**
 * A field of other APIs that the gateway does not have, although dropping it would change the answer or its price: a value
 * that asks for something is refused. Clients send the others with every request, and no adapter forwards them. The
 * OpenAPI document omits these fields.
 */
export function refusedField(problem: string, isHarmless: (value: unknown) => boolean = asksForNothing) {
  return z.unknown().refine(isHarmless, problem).optional().meta({ 'x-internal': true })
}

/** Refused unless the value is the one by which other APIs ask for what the gateway does in any case. */
export function refusedUnless(usual: string | number, problem: string) {
  return refusedField(problem, value => asksForNothing(value) || asText(value) === String(usual))
}

/** An empty options object still enables a feature; an empty list selects nothing. */
export function asksForNothing(value: unknown): boolean {
  return (
    value === null || value === false || value === '' || isFalseText(value) || (Array.isArray(value) && !value.length)
  )
}

/** A form has texts only: Python's clients also write `False`. */
export function isFalseText(value: unknown): boolean {
  return value === 'false' || value === 'False'
}
