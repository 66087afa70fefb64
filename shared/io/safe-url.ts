import type { LookupAddress, LookupOptions } from 'node:dns'
import { lookup } from 'node:dns/promises'
import { BlockList, isIP, isIPv4 } from 'node:net'
import { Readable } from 'node:stream'
import { Agent, type Dispatcher, request } from 'undici'
import { type ErrorDetails, GatewayError } from '../base/errors.ts'
import { noProxies, type Proxies, proxyFor } from '../base/proxies.ts'
import { PieceCollector } from './byte-budget.ts'
import { limitBytes } from './bytes.ts'
import { compressionsIn } from './content-coding.ts'
import { tunnelConnector } from './tunnel.ts'

/** As `fetch` follows (https://fetch.spec.whatwg.org/#http-redirect-fetch). */
export const maxRedirects = 20
const resolveTimeoutMs = 5_000
const connectTimeoutMs = 10_000
const maxUrlLength = 8_192

export type Resolver = (hostname: string) => Promise<LookupAddress[]>

type UrlRules = {
  /** Allows http, private addresses and any port: for development, and for hosts in the operator's own network. */
  allowPrivate: boolean
  /** Defaults to `allowPrivate`; tests set it because they have no certificate. */
  allowHttp?: boolean
  /** The request field the URL came from, for the error. */
  param?: string
  /** Defaults to the system's resolver; tests inject their own. */
  resolve?: Resolver
  /** Defaults to `isPublicAddress`; tests inject their own because they have no public host. */
  isPublic?: (address: string) => boolean
  /** Defaults to none. A proxy is told the checked address, not the name, which it could resolve to another one. */
  proxies?: Proxies
  signal?: AbortSignal
}

export type FetchRules = UrlRules & {
  maxBytes: number
  /** Total timeout: resolving, redirects and the body. */
  timeoutMs: number
  /** Accepted media types: whole ones (`application/pdf`) or prefixes ending with a slash (`image/`). All if absent. */
  accept?: readonly string[]
}

/** The rules for every URL from outside, whatever its source. */
export type UrlPolicy = Pick<UrlRules, 'allowPrivate' | 'allowHttp' | 'resolve' | 'isPublic' | 'proxies'>

/** A URL that is rejected, or a fetch that failed; `transient` = a retry may succeed. */
export class UrlRefused extends GatewayError {
  readonly transient: boolean
  constructor(message: string, details: ErrorDetails, transient: boolean) {
    super('url_not_allowed', message, details)
    this.transient = transient
  }
}

export type CheckedUrl = { url: URL; addresses: LookupAddress[] }
export type Fetched = { contentType: string; bytes: Buffer; url: string }

/** Everything in IPv4 that is not public unicast (IANA special-purpose registry, cloud metadata in 169.254/16). */
const specialV4 = subnets('ipv4', [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
  ...['224.0.0.0/4', '240.0.0.0/4'],
])
/**
 * Excluded by this range: loopback, IPv4-mapped and -compatible, NAT64, discard-only, unique local, link-local,
 * multicast.
 */
const globalV6 = subnets('ipv6', ['2000::/3'])
/** Protocol assignments with Teredo, documentation, 6to4: the inner address of a tunnel may be private. */
const specialV6 = subnets('ipv6', ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'])

function subnets(family: 'ipv4' | 'ipv6', ranges: string[]): BlockList {
  const list = new BlockList()
  for (const range of ranges) {
    const [network = '', prefix] = range.split('/')
    list.addSubnet(network, Number(prefix), family)
  }
  return list
}

/** Whether an IP address in text form is public unicast. */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !specialV4.check(address, 'ipv4')
  return isIP(address) === 6 && globalV6.check(address, 'ipv6') && !specialV6.check(address, 'ipv6')
}

/**
 * Checks a URL from a caller: https, no credentials, no port of another service, and every address of its host public.
 * To prevent DNS rebinding, connect with `pinnedConnect`. Throws an `UrlRefused`.
 */
export async function assertPublicUrl(address: string, rules: UrlRules): Promise<CheckedUrl> {
  if (address.length > maxUrlLength || !URL.canParse(address)) throw refused(rules, 'is not a valid URL')
  const url = new URL(address)
  const http = url.protocol === 'http:' && (rules.allowHttp ?? rules.allowPrivate)
  if (url.protocol !== 'https:' && !http) throw refused(rules, 'must be an https URL')
  if (url.username || url.password) throw refused(rules, 'must not contain a user name or password')
  if (!rules.allowPrivate && isForeignPort(url.port)) throw refused(rules, 'names a port that is not for the web')
  const addresses = await addressesOf(url, rules)
  const isPublic = rules.isPublic ?? isPublicAddress
  if (!rules.allowPrivate && !addresses.every(found => isPublic(found.address))) {
    throw refused(rules, 'must point to a host on the public internet')
  }
  return { url, addresses }
}

/** Ports below 1024 are reserved for well-known services, two of which are the web. */
function isForeignPort(port: string): boolean {
  return port !== '' && Number(port) < 1024 && port !== '80' && port !== '443'
}

/** Resolves the host's addresses; the URL parser has already normalized decimal, octal and hexadecimal forms. */
async function addressesOf(url: URL, rules: UrlRules): Promise<LookupAddress[]> {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const family = isIP(host)
  if (family) return [{ address: host, family }]
  const resolve = rules.resolve ?? (name => lookup(name, { all: true, verbatim: true }))
  const deadline = AbortSignal.timeout(resolveTimeoutMs)
  try {
    const found = await unlessAborted(
      resolve(host),
      rules.signal ? AbortSignal.any([rules.signal, deadline]) : deadline,
    )
    if (found.length > 0) return found
  } catch (cause) {
    if (rules.signal?.aborted) throw rules.signal.reason
    throw refused(rules, 'names a host that cannot be found', cause, true)
  }
  throw refused(rules, 'names a host that has no address')
}

/** A lookup function that returns these addresses, whatever the name resolves to later. */
function pinnedLookup(addresses: LookupAddress[]) {
  return (
    _hostname: string,
    options: LookupOptions,
    done: (error: Error | null, address: string | LookupAddress[], family?: number) => void,
  ) => {
    const first = addresses[0]!
    if (options.all) done(null, addresses)
    else done(null, first.address, first.family)
  }
}

/** How undici connects to the checked addresses of a URL only, whatever its name resolves to later. */
export function pinnedConnect({ url, addresses }: CheckedUrl, proxies: Proxies = noProxies, timeoutMs: number) {
  const proxy = proxyFor(url, proxies)
  if (proxy !== null) return tunnelConnector({ proxy, timeoutMs, address: addresses[0]!.address })
  return { lookup: pinnedLookup(addresses), timeout: timeoutMs, noDelay: true }
}

/** An opened file with its body unread. `bytes` is the announced length; null if there is none. */
type OpenedFile = { stream: Readable; contentType: string; bytes: number | null; url: string }

/**
 * Opens a file at a URL from a caller. Checks every hop of at most 20 redirects; more than `maxBytes`, a compressed
 * body, a wrong media type or no end within `timeoutMs` is an error, of this call or of the stream. Throws an
 * `UrlRefused`, or the signal's reason if `signal` aborts. Destroy a stream that is not read to its end.
 */
export async function openPublic(address: string, rules: FetchRules): Promise<OpenedFile> {
  const deadline = AbortSignal.timeout(rules.timeoutMs)
  const signal = rules.signal ? AbortSignal.any([rules.signal, deadline]) : deadline
  const toRefusal = (error: unknown) => {
    if (rules.signal?.aborted) return rules.signal.reason
    if (deadline.aborted) return refused(rules, `did not answer within ${rules.timeoutMs / 1000} s`, error, true)
    return error instanceof GatewayError ? error : refused(rules, 'could not be fetched', error, true)
  }
  try {
    return await follow(address, { ...rules, signal }, toRefusal)
  } catch (error) {
    throw toRefusal(error)
  }
}

/**
 * Downloads a whole file, with the checks of `openPublic`. `hold` accounts for the memory of each piece of it; what it throws
 * ends the download.
 */
export async function fetchPublic(
  address: string,
  rules: FetchRules,
  hold: (bytes: number) => void = () => {},
): Promise<Fetched> {
  const { stream, contentType, url } = await openPublic(address, rules)
  const pieces = new PieceCollector()
  for await (const piece of stream as AsyncIterable<Buffer>) {
    hold(piece.length)
    pieces.add(piece)
  }
  return { contentType, bytes: pieces.take(), url }
}

type ToRefusal = (error: unknown) => unknown

async function follow(address: string, rules: FetchRules, toRefusal: ToRefusal): Promise<OpenedFile> {
  let next = address
  for (let hop = 0; hop <= maxRedirects; hop++) {
    const checked = await assertPublicUrl(next, rules)
    const { url } = checked
    // Destroyed after use.
    const dispatcher = new Agent({ allowH2: false, connect: pinnedConnect(checked, rules.proxies, connectTimeoutMs) })
    let opened = false
    try {
      const accept = rules.accept?.map(type => (type.endsWith('/') ? `${type}*` : type)).join(', ') ?? '*/*'
      const headers = { accept, 'accept-encoding': 'identity', 'user-agent': 'headgate' }
      const response = await request(url, { dispatcher, signal: rules.signal, headers })
      response.body.on('error', () => {}) // The reader of the stream receives the same error.
      const location = redirection(response, url, rules)
      if (location === null) {
        const file = checkResponse(response, url, rules, toRefusal)
        response.body.once('close', () => void dispatcher.destroy())
        opened = true
        return file
      }
      next = location
    } finally {
      if (!opened) await dispatcher.destroy()
    }
  }
  throw refused(rules, `redirects more than ${maxRedirects} times`)
}

/** Returns the target of a redirect, or null if the response is none. */
function redirection(response: Dispatcher.ResponseData, from: URL, rules: UrlRules): string | null {
  const location = response.headers.location
  if (![301, 302, 303, 307, 308].includes(response.statusCode) || typeof location !== 'string') return null
  if (!URL.canParse(location, from.href)) throw refused(rules, 'redirects to an invalid URL')
  const next = new URL(location, from)
  if (from.protocol === 'https:' && next.protocol === 'http:') throw refused(rules, 'redirects from https to http')
  return next.href
}

function checkResponse(
  response: Dispatcher.ResponseData,
  url: URL,
  rules: FetchRules,
  toRefusal: ToRefusal,
): OpenedFile {
  const { statusCode, headers, body } = response
  if (statusCode !== 200) throw refused(rules, `answered with status ${statusCode}`, null, statusCode >= 500)
  const contentType = mediaType(headers['content-type'])
  const wanted = rules.accept?.some(type => (type.endsWith('/') ? contentType.startsWith(type) : contentType === type))
  if (wanted === false) throw refused(rules, `is of type ${contentType}, expected ${rules.accept?.join(', ')}`)
  if (compressionsIn(headers['content-encoding']).length > 0) throw refused(rules, 'answered with a compressed body')
  const tooLarge = () => refused(rules, `is larger than ${rules.maxBytes} bytes`)
  const length = headers['content-length']
  if (Number(length ?? 0) > rules.maxBytes) throw tooLarge()
  const read = async function* () {
    try {
      yield* limitBytes(body, rules.maxBytes, tooLarge)
    } catch (error) {
      throw toRefusal(error)
    }
  }
  const stream = Readable.from(read(), { objectMode: false })
  stream.once('close', () => body.destroy())
  return { stream, contentType, bytes: length === undefined ? null : Number(length), url: url.href }
}

function mediaType(header: string | string[] | undefined): string {
  const text = Array.isArray(header) ? header[0] : header
  return text?.split(';')[0]?.trim().toLowerCase() || 'application/octet-stream'
}

/**
 * Settles as `work`, or rejects with the signal's reason if that comes first: the system's resolver cannot be
 * cancelled.
 */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason)
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    work.then(resolve, reject)
  })
}

function refused(rules: UrlRules, problem: string, cause?: unknown, transient = false): UrlRefused {
  return new UrlRefused(`The URL ${problem}.`, { param: rules.param, cause }, transient)
}
