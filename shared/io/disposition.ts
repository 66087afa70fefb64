/** Formats a `Content-Disposition` that displays the file inline and names it for downloads (RFC 6266). */
export function inlineDisposition(filename: string): string {
  const plain = filename.replace(/[^\x20-\x7e]|["\\%]/g, '_')
  const encoded = encodeURIComponent(filename.toWellFormed()).replace(
    /['()*]/g,
    c => `%${c.charCodeAt(0).toString(16)}`,
  )
  return `inline; filename="${plain}"; filename*=UTF-8''${encoded}`
}
