/** A playground request, for the equivalent code. */
export type PlainRequest = {
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
