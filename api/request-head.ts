import { newId } from '../shared/base/ids.ts'

/** The request id: a valid inbound one, otherwise a new one. */
export function requestIdOf(inbound: unknown): string {
  return typeof inbound === 'string' && validRequestId.test(inbound) ? inbound : newId('req')
}

const validRequestId = /^[A-Za-z0-9._:-]{1,128}$/

/** The headers of every response; pages of any origin may call /v1 and read every header. */
export function baseHeaders(requestId: string, isPublic: boolean): Record<string, string> {
  if (!isPublic) return { 'x-request-id': requestId }
  return {
    'x-request-id': requestId,
    'access-control-allow-origin': '*',
    'access-control-expose-headers': '*',
  }
}

/** A URL whose path has single slashes: a base URL that ends in one makes two of them. */
export function withSingleSlashes(url: string): string {
  if (!url.includes('//')) return url
  const pathEnd = url.indexOf('?')
  const path = pathEnd < 0 ? url : url.slice(0, pathEnd)
  return path.replace(/\/{2,}/g, '/') + url.slice(path.length)
}
