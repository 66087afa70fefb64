import type { PlainRequest } from './plain-request.ts'

/** Formats the equivalent curl command; it reads the key from `$HEADGATE_API_KEY`. */
export function curlOf({ path, body, form, stream, output }: PlainRequest): string {
  const lines = [
    `curl ${stream ? '-N ' : ''}${location.origin}${path}`,
    '-H "Authorization: Bearer $HEADGATE_API_KEY"',
    ...(body ? ["-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body, null, 2))}`] : []),
    ...(form ? [`-F ${quoted(`file=@${quotedName(form.file)}`)}`] : []),
    // Not -F, which reads values beginning with `@` or `<` from a file, and accepts a content type.
    ...Object.entries(form?.fields ?? {}).map(([name, value]) => `--form-string ${quoted(`${name}=${value}`)}`),
    ...(output ? [`-o ${quoted(output)}`] : []),
  ]
  return lines.join(' \\\n  ')
}

/** Quotes a file name for curl, which ends an unquoted one at a comma or semicolon. */
function quotedName(name: string): string {
  return /[,;"\\]/.test(name) ? `"${name.replace(/["\\]/g, '\\$&')}"` : name
}

/** Quotes a word for the shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
