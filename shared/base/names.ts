const maxNames = 20

/** Names as a message has them: each as code, the first of many. */
export function listNames(names: readonly string[]): string {
  const shown = names.slice(0, maxNames).map(name => `\`${name}\``)
  const others = names.length - shown.length
  return [...shown, ...(others > 0 ? [`${others} more`] : [])].join(', ') || 'none'
}
