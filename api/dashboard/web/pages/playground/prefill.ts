let prefill = new Map<string, unknown>()

/** Sets the fields with which the playground opens next, by their names (`usePersistedField`). They are in no address. */
export function setPrefill(fields: Record<string, unknown>): void {
  prefill = new Map(Object.entries(fields))
}

/** Takes the prefilled fields, once. */
export function takePrefill(): Map<string, unknown> {
  const fields = prefill
  prefill = new Map()
  return fields
}
