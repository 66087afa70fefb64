import { isIP } from 'node:net'

/**
 * Whether an origin is ours: PUBLIC_URL's, or that of the requested host if it is an IP address or localhost. Other
 * host names are rejected: their owner may point them here (DNS rebinding).
 */
export function isOwnOrigin(origin: string, host: string | undefined, publicUrl: string): boolean {
  if (origin === new URL(publicUrl).origin) return true
  return URL.canParse(origin) && new URL(origin).host === host && isAddressOrLocalhost(new URL(origin).hostname)
}

/** The origins of the requested host, if only our own pages can be served from it. */
export function ownOrigins(request: Request | undefined): string[] {
  if (!request) return []
  const { host, hostname } = new URL(request.url)
  return isAddressOrLocalhost(hostname) ? [`http://${host}`, `https://${host}`] : []
}

function isAddressOrLocalhost(hostname: string): boolean {
  return hostname === 'localhost' || hostname.endsWith('.localhost') || isIP(hostname.replace(/^\[|\]$/g, '')) !== 0
}
