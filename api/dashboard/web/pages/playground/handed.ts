let handed = new Map<string, unknown>()

/** Sets the fields with which the playground opens next, by their names (`useKept`). They are in no address. */
export function handOver(fields: Record<string, unknown>): void {
  handed = new Map(Object.entries(fields))
}

/** Takes the fields that were handed over, once. */
export function takeHanded(): Map<string, unknown> {
  const fields = handed
  handed = new Map()
  return fields
}
