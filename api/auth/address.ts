import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import type { ActorClient } from '../../shared/io/audit.ts'
import { addressHeader } from './accounts.ts'

const maxAgentCharacters = 300

/**
 * The client address of a request. Each trusted proxy appends the address it saw to `X-Forwarded-For`, so with n
 * proxies the client's is the n-th from the right; entries further left are client-supplied.
 */
export function clientAddress(request: IncomingMessage, trustedProxies: number): string {
  const direct = request.socket.remoteAddress ?? '0.0.0.0'
  if (trustedProxies === 0) return direct
  const forwarded = String(request.headers['x-forwarded-for'] ?? '')
    .split(',')
    .map(part => withoutPort(part.trim()))
    .filter(Boolean)
  const address = forwarded.at(-trustedProxies) ?? forwarded[0] ?? ''
  return isIP(address) ? address : direct
}

/** Some proxies append the port: `203.0.113.7:51234`, `[2001:db8::1]:51234`. */
function withoutPort(address: string): string {
  const [, bracketed, dotted] = /^(?:\[(.+)\](?::\d+)?|([\d.]+):\d+)$/.exec(address) ?? []
  return bracketed ?? dotted ?? address
}

/** Where a request comes from, for the audit log. */
export function clientOf(request: IncomingMessage, trustedProxies: number): ActorClient {
  return describe(clientAddress(request, trustedProxies), request.headers['user-agent'])
}

/** The same of a request for the accounts library, whose headers name the address. */
export function clientOfHeaders(headers: Headers): ActorClient {
  return describe(headers.get(addressHeader) ?? '', headers.get('user-agent'))
}

function describe(address: string, agent: string | null | undefined): ActorClient {
  // A socket for both families has IPv4 addresses in IPv6 form.
  return {
    ipAddress: address.replace(/^::ffff:(?=[\d.]+$)/i, ''),
    userAgent: agent?.slice(0, maxAgentCharacters) || null,
  }
}
