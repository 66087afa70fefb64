import { BlockList, isIP, isIPv4 } from 'node:net'

/** The HTTP proxies that requests to the internet leave through, as `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` name them. */
export type Proxies = {
  /** For http URLs; null = none. May have a user name and a password. */
  http: string | null
  /** For https URLs; null = none. */
  https: string | null
  /** The list of hosts that are reached without a proxy. */
  noProxy: string
}

export const noProxies: Proxies = { http: null, https: null, noProxy: '' }

/** The value of a `<PROVIDER>_PROXY` variable for a provider that is reached without a proxy. */
export const directConnection = 'direct'

/** The variables with the values of their lower-case names, which curl and most programs prefer. */
export function preferLowerCase(env: Record<string, string>): Record<string, string> {
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'] as const
  const given = names.flatMap(name => (env[name.toLowerCase()] ? [[name, env[name.toLowerCase()]!]] : []))
  return { ...env, ...Object.fromEntries(given) }
}

/** Whether a text is the URL of an HTTP proxy. */
export function isProxyUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)
}

/** A proxy without its credentials, for messages. */
export function proxyName(proxy: string): string {
  return new URL(proxy).host
}

/** The proxy for a URL; null = none. */
export function proxyFor({ protocol, hostname, port }: URL, { http, https, noProxy }: Proxies): string | null {
  const isSecure = protocol === 'https:' || protocol === 'wss:'
  const proxy = isSecure ? https : http
  if (proxy === null) return null
  const host = hostname.replace(/^\[|\]$/g, '').toLowerCase()
  const address = { host, port: port || (isSecure ? '443' : '80') }
  return entriesOf(noProxy).some(entry => covers(entry, address)) ? null : proxy
}

function entriesOf(noProxy: string): string[] {
  return noProxy
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean)
}

/**
 * Whether an entry of `NO_PROXY` covers an address, as curl and Go read it: `*`, a domain with its subdomains (with or without a
 * leading dot or `*.`), an IP address or a network in CIDR notation; the first two may have a port.
 * https://pkg.go.dev/golang.org/x/net/http/httpproxy#Config
 */
function covers(entry: string, { host, port }: { host: string; port: string }): boolean {
  if (entry === '*') return true
  const family = isIP(host)
  if (entry.includes('/')) return family !== 0 && isInNetwork(host, family, entry)
  const [, name = '', wantedPort] = /^(?:\*?\.)?(\[.+\]|.*?)(?::(\d+))?$/.exec(
    isIP(entry) === 6 ? `[${entry}]` : entry,
  )!
  if (name === '' || (wantedPort !== undefined && wantedPort !== port)) return false
  const wanted = name.replace(/^\[|\]$/g, '')
  return host === wanted || (family === 0 && host.endsWith(`.${wanted}`))
}

function isInNetwork(host: string, family: number, entry: string): boolean {
  const [network = '', prefix] = entry.split('/')
  const bits = Number(prefix)
  const isNetwork = isIP(network) === family && Number.isInteger(bits) && bits >= 0 && bits <= (family === 4 ? 32 : 128)
  if (!isNetwork) return false
  const type = family === 4 ? 'ipv4' : 'ipv6'
  const list = new BlockList()
  list.addSubnet(network, bits, type)
  return list.check(host, type)
}

/** The proxies as options of Node's own agents, which other libraries use: these read hosts of `NO_PROXY` in other forms. */
export function nodeAgentOptions(proxies: Proxies): { keepAlive: true; proxyEnv?: Record<string, string> } {
  const { http, https, noProxy } = proxies
  if (!http && !https) return { keepAlive: true }
  const direct = entriesOf(noProxy).flatMap(nodeEntries).join(',')
  const proxyEnv = { ...(http && { HTTP_PROXY: http }), ...(https && { HTTPS_PROXY: https }), NO_PROXY: direct }
  return { keepAlive: true, proxyEnv }
}

/** An entry as Node reads it: a name without its subdomains, networks as ranges (https://nodejs.org/api/http.html#built-in-proxy-support). */
function nodeEntries(entry: string): string[] {
  const [network = '', prefix] = entry.split('/')
  if (prefix !== undefined) return isIPv4(network) ? [rangeOf(network, Number(prefix))] : []
  if (entry === '*' || isIP(entry)) return [entry]
  const name = entry.replace(/^\*?\./, '')
  return [name, `.${name}`]
}

function rangeOf(network: string, bits: number): string {
  const size = 2 ** (32 - bits)
  const first = Math.floor(network.split('.').reduce((sum, part) => sum * 256 + Number(part), 0) / size) * size
  const text = (value: number) => [24, 16, 8, 0].map(shift => Math.floor(value / 2 ** shift) % 256).join('.')
  return `${text(first)}-${text(first + size - 1)}`
}
