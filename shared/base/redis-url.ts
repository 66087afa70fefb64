import { isIPv6 } from 'node:net'

/** Redis as `REDIS_URL` names it: one server, a primary that sentinels know by its name, or a Redis Cluster. */
export type RedisTarget =
  | { kind: 'server'; url: string; isTls: boolean }
  | ({ kind: 'sentinel'; name: string; database: number } & Endpoints)
  | ({ kind: 'cluster' } & Endpoints)

type Host = { host: string; port: number }
type Endpoints = { hosts: Host[]; isTls: boolean; username?: string; password?: string }

export const redisUrlFault =
  'must be a URL such as redis://host:6379, rediss://user:password@host:6379, redis+sentinel://host:26379,host:26379/name or redis+cluster://host:6379,host:6379; / ? and # in a password must be percent-encoded (%2F, %3F, %23)'

const defaultPorts = { sentinel: 26_379, cluster: 6_379 }
const severalHosts =
  /^(rediss?)\+(sentinel|cluster):\/\/(?:([^:@/?#]*)(?::([^@/?#]*))?@)?([^@/?#]+)(?:\/([^/?#]+)?(?:\/(\d{1,4}))?)?$/i

/** Reads a `REDIS_URL`; null if it is none. URLs of several hosts are not URLs of the WHATWG standard. */
export function parseRedisUrl(text: string): RedisTarget | null {
  const [, scheme, kind, user, secret, list, name, database = '0'] = severalHosts.exec(text) ?? []
  if (!scheme) return parseServerUrl(text)
  const isSentinel = kind!.toLowerCase() === 'sentinel'
  const hosts = list!.split(',').map(part => parseHost(part, defaultPorts[isSentinel ? 'sentinel' : 'cluster']))
  if (!hosts.every(host => host !== null) || isSentinel !== (name !== undefined)) return null
  try {
    const username = user && decodeURIComponent(user)
    const password = secret && decodeURIComponent(secret)
    const credentials = { ...(username && { username }), ...(password && { password }) }
    const endpoints = { hosts, isTls: scheme.toLowerCase() === 'rediss', ...credentials }
    if (!isSentinel) return { kind: 'cluster', ...endpoints }
    return { kind: 'sentinel', name: decodeURIComponent(name!), database: Number(database), ...endpoints }
  } catch {
    return null // Not percent-encoded.
  }
}

function parseServerUrl(text: string): RedisTarget | null {
  const protocol = URL.canParse(text) ? new URL(text).protocol : ''
  return protocol === 'redis:' || protocol === 'rediss:'
    ? { kind: 'server', url: text, isTls: protocol === 'rediss:' }
    : null
}

function parseHost(text: string, defaultPort: number): Host | null {
  const [, ipv6, name, port = String(defaultPort)] = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(text) ?? []
  const host = ipv6 ?? name
  const isValid = ipv6 === undefined ? /^[\w.-]+$/.test(name ?? '') : isIPv6(ipv6)
  return host && isValid && Number(port) <= 65_535 ? { host, port: Number(port) } : null
}
