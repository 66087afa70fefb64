/** A `Content-Disposition` that shows the file in the page and names it when it is saved (RFC 6266). */
export function inline(filename: string): string {
  const plain = filename.replace(/[^\x20-\x7e]|["\\%]/g, '_')
  const encoded = encodeURIComponent(filename.toWellFormed()).replace(
    /['()*]/g,
    c => `%${c.charCodeAt(0).toString(16)}`,
  )
  return `inline; filename="${plain}"; filename*=UTF-8''${encoded}`
}
