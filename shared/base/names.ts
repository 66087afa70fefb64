const maxNames = 20

/** Formats names for a message: each as code, at most 20 of them. */
export function formatNames(names: readonly string[]): string {
  const shown = names.slice(0, maxNames).map(name => `\`${name}\``)
  const others = names.length - shown.length
  return [...shown, ...(others > 0 ? [`${others} more`] : [])].join(', ') || 'none'
}

/** The set of the names in a text, which spaces or line breaks separate. */
export function namesIn(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/))
}
