const maxNames = 20

/** Formats names for a message: each as code, at most 20 of them. */
export function formatNames(names: readonly string[]): string {
  const shown = names.slice(0, maxNames).map(name => `\`${name}\``)
  const others = names.length - shown.length
  return [...shown, ...(others > 0 ? [`${others} more`] : [])].join(', ') || 'none'
}
