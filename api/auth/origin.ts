import { isIP } from 'node:net'

/**
 * Whether a page's origin is one of ours: PUBLIC_URL's, or that of the very host that is asked where it is an address or
 * localhost. Any other name may be somebody else's, who lets it point here (DNS rebinding).
 */
export function isOwnOrigin(origin: string, host: string | undefined, publicUrl: string): boolean {
  if (origin === new URL(publicUrl).origin) return true
  return URL.canParse(origin) && new URL(origin).host === host && isNobodysName(new URL(origin).hostname)
}

/** The origins of the host that a request names, where pages of it can only be ours. */
export function ownOrigins(request: Request | undefined): string[] {
  if (!request) return []
  const { host, hostname } = new URL(request.url)
  return isNobodysName(hostname) ? [`http://${host}`, `https://${host}`] : []
}

function isNobodysName(hostname: string): boolean {
  return hostname === 'localhost' || hostname.endsWith('.localhost') || isIP(hostname.replace(/^\[|\]$/g, '')) !== 0
}
