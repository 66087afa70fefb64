/**
 * Any value of parsed JSON as text. `String` and template literals throw for an object that has a member named `toString`, which a
 * caller's JSON may have.
 */
export function asText(value: unknown): string {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)
}
