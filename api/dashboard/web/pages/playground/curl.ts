/** What a request of the playground is, for the command that does the same. */
export type CurlRequest = {
  path: string
  /** Sent as JSON. */
  body?: object
  /** Sent as a multipart form; a value that begins with @ names a file. */
  form?: Record<string, string>
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
    ...Object.entries(form ?? {}).map(([name, value]) => `-F ${quoted(`${name}=${value}`)}`),
    ...(output ? [`-o ${quoted(output)}`] : []),
  ]
  return lines.join(' \\\n  ')
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
