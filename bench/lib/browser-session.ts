/** A person at the dashboard, without a browser: keeps cookies and names its origin, as browsers do. */
export class BrowserSession {
  readonly url: string
  readonly #cookies = new Map<string, string>()

  constructor(url: string) {
    this.url = url
  }

  get cookies(): { name: string; value: string; url: string }[] {
    return [...this.#cookies].map(([name, value]) => ({ name, value, url: this.url }))
  }

  async fetch(path: string, body?: unknown): Promise<Response> {
    const response = await fetch(this.url + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        cookie: [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; '),
        ...(body !== undefined && { origin: this.url, 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    for (const cookie of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie)!
      this.#cookies.set(name!, value!)
    }
    return response
  }

  /** The JSON answer of a request. Throws an Error if it is refused. */
  async json<T>(path: string, body?: unknown): Promise<T> {
    const response = await this.fetch(path, body)
    const text = await response.text()
    if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`)
    return JSON.parse(text) as T
  }
}
