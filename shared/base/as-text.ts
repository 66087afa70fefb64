/**
 * A value of a stranger's JSON as text, whatever it is: `String` throws for an object with a member `toString` of its own, and so
 * does a template.
 */
export function asText(value: unknown): string {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)
}
