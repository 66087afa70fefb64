/** Texts of callers and providers as PostgreSQL takes them: without NUL, and well-formed. */

export function storableText(text: string): string {
  return text.replaceAll('\0', '').toWellFormed()
}

export function isStorableText(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed()
}
