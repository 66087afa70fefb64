import { GatewayError } from '../base/errors.ts'
import { fetchPublic } from '../io/safe-url.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Platform } from '../platform.ts'
import type { DirectAdapter, Media, Target } from '../providers/contract.ts'

export const noMedia: ReadonlyMap<string, Media> = new Map()
const max = 16
const maxBytes = 20 * 1024 * 1024
const timeoutMs = 15_000

/**
 * Fetches the remote media whose bytes an adapter needs, subject to the URL policy. Throws `url_not_allowed` naming the
 * field.
 */
export async function fetchMedia<K extends DirectKind>(
  services: Pick<Platform, 'urlPolicy'>,
  adapter: DirectAdapter<K>,
  body: DirectKinds[K]['request'],
  target: Target,
): Promise<ReadonlyMap<string, Media>> {
  const urls = [...new Set(adapter.remoteMedia?.(body, target) ?? [])]
  if (urls.length === 0) return noMedia
  if (urls.length > max) {
    throw new GatewayError(
      'invalid_request',
      `At most ${max} images by URL can be sent to this model; send the others as data: URIs.`,
      { param: 'messages' },
    )
  }
  const rules = { ...services.urlPolicy, maxBytes, timeoutMs, param: 'messages' }
  const files = await Promise.all(urls.map(url => fetchPublic(url, rules)))
  return new Map(urls.map((url, i) => [url, files[i]!]))
}
