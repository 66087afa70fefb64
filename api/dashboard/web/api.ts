/** The error body of the dashboard's routes and of the account routes. */
export class ApiError extends Error {
  override name = 'ApiError'
  readonly status: number
  readonly code: string
  /** The invalid field. */
  readonly param: string | null
  readonly requestId: string | null

  /** The entry of the request log, if the request has one. */
  readonly generationId: string | null

  constructor(
    status: number,
    code: string,
    message: string,
    param: string | null,
    requestId: string | null,
    generationId: string | null = null,
  ) {
    super(message)
    this.generationId = generationId
    this.status = status
    this.code = code
    this.param = param
    this.requestId = requestId
  }
}

/** Whether nobody answered, or somebody who cannot serve now: the same request may succeed soon. */
export function isOutage(error: unknown): error is ApiError {
  return error instanceof ApiError && [0, 502, 503, 504].includes(error.status)
}

/** The codes of an ended session, of our routes and of the accounts’ routes. */
const sessionEnded = ['not_signed_in', 'UNAUTHORIZED']

export function isSessionEnd(error: unknown): boolean {
  return error instanceof ApiError && sessionEnded.includes(error.code)
}

/** The error code of a change whose response never arrived: it may or may not have been made. */
export const noAnswer = 'no_answer'
const accountsPath = '/dashboard/api/auth/'

type CallOptions = { method?: string; body?: unknown; signal?: AbortSignal }

/** Calls a dashboard route with the browser's session and returns its JSON. Throws an ApiError. */
export async function call<T>(path: string, { method, body, signal }: CallOptions = {}): Promise<T> {
  const verb = method ?? (body === undefined ? 'GET' : 'POST')
  const response = await fetch(path, {
    method: verb,
    ...(body !== undefined && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    ...(signal && { signal }),
  }).catch(error => {
    if (signal?.aborted) throw error
    // Those of accounts, such as a sign-in, may be repeated.
    const code = verb === 'GET' || path.startsWith(accountsPath) ? 'unreachable' : noAnswer
    throw new ApiError(0, code, 'The gateway cannot be reached. Are you offline?', null, null)
  })
  if (!response.ok) throw await errorOf(response)
  const text = await response.text()
  return (text === '' ? null : parse(text, response)) as T
}

/** Throws an ApiError for what is not of the gateway, such as the sign-in page of a proxy in front of it, with status 200. */
function parse(text: string, { status, headers }: Response): unknown {
  try {
    return JSON.parse(text)
  } catch {
    const message =
      'Something else answered in place of the gateway, such as the sign-in of a proxy. Load this page again.'
    throw new ApiError(status, 'foreign_answer', message, null, headers.get('x-request-id'))
  }
}

/** Calls an account route (sign-in, sign-up, members …). Throws an ApiError. */
export function callAuth<T>(path: string, body?: unknown): Promise<T> {
  return call<T>(`${accountsPath}${path}`, body === undefined ? {} : { body })
}

/** The message of an error response. */
export async function errorOf(response: Response): Promise<ApiError> {
  const requestId = response.headers.get('x-request-id')
  const body = (await response.json().catch(() => null)) as {
    error?: { message: string; code: string; param: string | null }
    message?: string
    code?: string
  } | null
  // The accounts library spells in American English, which no page does.
  const ofAccounts = body?.message?.replace(/rganization/g, 'rganisation')
  const { message, code, param } = body?.error ?? { message: ofAccounts, code: body?.code, param: null }
  return new ApiError(
    response.status,
    code ?? String(response.status),
    message ?? `The gateway answered ${response.status}.`,
    param ?? null,
    requestId,
    response.headers.get('x-generation-id'),
  )
}

/** Formats query parameters, without the empty ones. */
export function queryText(values: Record<string, string | number | boolean | null | undefined>): string {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== '')
  return given.length === 0
    ? ''
    : `?${new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]))}`
}
