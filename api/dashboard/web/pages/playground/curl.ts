/** A playground request, for the equivalent curl command. */
export type CurlRequest = {
  path: string
  /** Sent as JSON. */
  body?: object
  /** Sent as a multipart form: a file by its name, and the other fields. */
  form?: { file: string; fields: Record<string, string> }
  /** Prints the response as it arrives. */
  stream?: boolean
  /** File name for a binary response. */
  output?: string
}

/** Formats the equivalent curl command; it reads the key from `$HEADGATE_API_KEY`. */
export function curlOf({ path, body, form, stream, output }: CurlRequest): string {
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
