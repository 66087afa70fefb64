/** What a request of the playground is, for the command that does the same. */
export type CurlRequest = {
  path: string
  /** Sent as JSON. */
  body?: object
  /** Sent as a multipart form: a file by its name, and the other fields. */
  form?: { file: string; fields: Record<string, string> }
  /** Prints parts of the answer as they come. */
  stream?: boolean
  /** Where the answer is bytes: the name to save them under. */
  output?: string
}

/** The command that makes the same request from a terminal; the key is read from `$HEADGATE_API_KEY`. */
export function curlOf({ path, body, form, stream, output }: CurlRequest): string {
  const lines = [
    `curl ${stream ? '-N ' : ''}${location.origin}${path}`,
    '-H "Authorization: Bearer $HEADGATE_API_KEY"',
    ...(body ? ["-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body, null, 2))}`] : []),
    ...(form ? [`-F ${quoted(`file=@${quotedName(form.file)}`)}`] : []),
    // Not -F, to which a value may be the name of a file, or have a type of its own.
    ...Object.entries(form?.fields ?? {}).map(([name, value]) => `--form-string ${quoted(`${name}=${value}`)}`),
    ...(output ? [`-o ${quoted(output)}`] : []),
  ]
  return lines.join(' \\\n  ')
}

/** A file's name for curl, which takes a comma or semicolon for the end of a bare one. */
function quotedName(name: string): string {
  return /[,;"\\]/.test(name) ? `"${name.replace(/["\\]/g, '\\$&')}"` : name
}

/** A word for the shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

/** An object without the fields that are not set. */
export function given<T extends object>(fields: T): Partial<T> {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined && value !== null && value !== ''),
  ) as Partial<T>
}
