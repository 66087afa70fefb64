/** Copies text to the clipboard; false if the browser refuses. */
export async function copyText(text: string): Promise<boolean> {
  if (!navigator.clipboard) return copySelected(text)
  return navigator.clipboard.writeText(text).then(
    () => true,
    () => false,
  )
}

/** The fallback for pages without https, which have no clipboard API. */
function copySelected(text: string): boolean {
  const before = document.activeElement
  const field = document.createElement('textarea')
  field.value = text
  field.readOnly = true
  field.style.position = 'fixed'
  // Next to the focused element, because a dialog traps the focus.
  ;(before ?? document.body).parentElement!.append(field)
  field.select()
  const isCopied = document.execCommand('copy')
  field.remove()
  if (before instanceof HTMLElement) before.focus({ preventScroll: true })
  return isCopied
}
