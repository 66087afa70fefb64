import type { IncomingMessage } from 'node:http'

/**
 * The address of whoever sent a request. Each trusted proxy appends the address it saw to `X-Forwarded-For`, so with n of
 * them the n-th from the right is the client's; what stands further left is the client's own word.
 */
export function clientAddress(request: IncomingMessage, trustedProxies: number): string {
  const direct = request.socket.remoteAddress ?? '0.0.0.0'
  if (trustedProxies === 0) return direct
  const forwarded = String(request.headers['x-forwarded-for'] ?? '')
    .split(',')
    .map(part => part.trim())
    .filter(Boolean)
  return forwarded.at(-trustedProxies) ?? forwarded[0] ?? direct
}
