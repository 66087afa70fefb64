import './cheap-passwords.ts'
import type { Me, MeAnswer } from '../../../api/dashboard/wire/person.ts'
import type { Role } from '../../../shared/base/roles.ts'
import type { Gateway } from '../gateway.ts'

let visitors = 0

/** A browser without a page: keeps cookies and names its origin, as browsers do. */
export class Visitor {
  readonly #gateway: Pick<Gateway, 'url'>
  readonly #cookies = new Map<string, string>()
  readonly email: string
  readonly #address = `198.18.${visitors >> 8}.${visitors++ & 255}`

  constructor(gateway: Pick<Gateway, 'url'>, email: string) {
    this.#gateway = gateway
    this.email = email
  }

  async fetch(path: string, options: { method?: string; body?: unknown; headers?: Record<string, string> } = {}) {
    const { url } = this.#gateway
    const { body, method = body === undefined ? 'GET' : 'POST', headers } = options
    const response = await fetch(url + path, {
      method,
      redirect: 'manual',
      headers: {
        // Of an address of its own: what is counted by address is counted by visitor.
        'x-forwarded-for': this.#address,
        cookie: [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; '),
        ...(method !== 'GET' && { origin: url }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    for (const cookie of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie)!
      if (value === '') this.#cookies.delete(name!)
      else this.#cookies.set(name!, value!)
    }
    return response
  }

  get cookies(): [name: string, value: string][] {
    return [...this.#cookies]
  }

  /** The JSON answer of a request that must succeed. */
  async json<T>(path: string, options?: Parameters<Visitor['fetch']>[1]): Promise<T> {
    const response = await this.fetch(path, options)
    const text = await response.text()
    if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`)
    return JSON.parse(text) as T
  }

  /** The person who is signed in here; null if nobody is. */
  async person(): Promise<Me | null> {
    return (await this.json<MeAnswer>('/dashboard/api/me')).person
  }
}

export const password = 'correct horse battery'
let people = 0
const maxSignUps = 3

export type SignedUp = { visitor: Visitor; organisationId: string; userId: string; base: string }

/**
 * A user who signed up on the real page, with an organisation of their own that they own; their address is confirmed
 * unless `verified` is false. `base` is where the routes of the organisation begin.
 */
export async function signUp(gateway: SignUpGateway, options: SignUpOptions = {}): Promise<SignedUp> {
  for (let tries = 1; ; tries++) {
    try {
      return await signUpOnce(gateway, options)
    } catch (error) {
      // The gateway shares a process with the test: where the machine is busy, its stores seem to answer too late.
      if (tries === maxSignUps || !(error as Error).message.includes(': 503 ')) throw error
    }
  }
}

type SignUpGateway = Pick<Gateway, 'url'> & { services: Pick<Gateway['services'], 'db'> }
type SignUpOptions = { verified?: boolean; name?: string }

async function signUpOnce(gateway: SignUpGateway, { verified = true, name = 'Ada' }: SignUpOptions): Promise<SignedUp> {
  const email = `person${++people}.${process.pid}@example.com`
  const visitor = new Visitor(gateway, email)
  const { user } = await visitor.json<{ user: { id: string } }>('/dashboard/api/auth/sign-up/email', {
    body: { name, email, password },
  })
  if (verified) await gateway.services.db.user.update({ where: { id: user.id }, data: { emailVerified: true } })
  const { id: organisationId } = await visitor.json<{ id: string }>('/dashboard/api/auth/organization/create', {
    body: { name: `${name}’s organisation`, slug: crypto.randomUUID() },
  })
  return { visitor, organisationId, userId: user.id, base: `/dashboard/api/organisations/${organisationId}` }
}

/** Makes another person a member of an organisation, without an invitation. */
export async function join(gateway: Gateway, userId: string, organisationId: string, role: Role) {
  const id = `mem_${userId}_${organisationId}`
  await gateway.services.db.membership.create({ data: { id, organisationId, userId, role } })
}

/** The code of an error's body; null where there is none. */
export async function errorCode(response: Response): Promise<string | null> {
  const body = (await response.json().catch(() => null)) as { error?: { code: string } } | null
  return body?.error?.code ?? null
}
