import { once } from 'node:events'
import http from 'node:http'
import net, { type AddressInfo } from 'node:net'
import { isPublicAddress, type UrlPolicy } from '../../../shared/io/safe-url.ts'

/** A URL that must never be fetched. `redirect` = its own address may be asked, but not where that leads. */
export type ForbiddenUrl = { name: string; url: string; redirect: boolean }

/** The loopback address that represents the public internet. */
const internet = '127.77.0.1'
/** A loopback address that represents an internal service. */
const inside = '127.0.0.1'

export type SsrfWorld = {
  forbidden: readonly ForbiddenUrl[]
  /** The real rules, but that the one address counts as public, and http is let through so that hosts are what is tried. */
  door: UrlPolicy
  /** An address in the public part of this world; `respond` says what it answers. */
  url: string
  respond: http.RequestListener
  /** How often the service inside was contacted: never is right. */
  contacts(): number
  close(): Promise<void>
}

/** Names of this world. `rebind…` is public when it is first asked for, and a service inside from then on. */
function resolver(): NonNullable<UrlPolicy['resolve']> {
  const asked = new Map<string, number>()
  const names: Record<string, string[]> = {
    'public.test': [internet],
    'internal.test': [inside],
    'mixed.test': [internet, inside],
    'mapped.test': [`::ffff:${inside}`],
    'nat64.test': ['64:ff9b::7f00:1'],
    'sixtofour.test': ['2002:7f00:1::1'],
    'metadata.test': ['169.254.169.254'],
    'unique-local.test': ['fd00:ec2::254'],
  }
  return async host => {
    const times = asked.get(host) ?? 0
    asked.set(host, times + 1)
    const found = host.startsWith('rebind') ? [times === 0 ? internet : inside] : (names[host] ?? [])
    return found.map(address => ({ address, family: net.isIP(address) }))
  }
}

/** Hosts of http and https URLs alike. `port` is that of the service inside. */
const hosts: Record<string, (port: number) => string> = {
  loopback: port => `127.0.0.1:${port}`,
  'another loopback address': port => `127.0.0.2:${port}`,
  'the whole of this host': port => `0.0.0.0:${port}`,
  'localhost by name': port => `localhost:${port}`,
  'localhost with a dot': port => `localhost.:${port}`,
  'a decimal host': port => `2130706433:${port}`,
  'an octal host': port => `0177.0.0.1:${port}`,
  'a hexadecimal host': port => `0x7f.0x0.0x0.0x1:${port}`,
  'one hexadecimal number': port => `0x7f000001:${port}`,
  'a host of two parts': port => `127.1:${port}`,
  'a host in full-width digits': port => `１２７.0.0.1:${port}`,
  'a percent-encoded host': port => `%31%32%37.0.0.1:${port}`,
  'a private address, class A': () => '10.0.0.1',
  'a private address, class B': () => '172.16.0.1',
  'a private address, class C': () => '192.168.0.1',
  'carrier-grade NAT': () => '100.64.0.1',
  'link-local': () => '169.254.1.1',
  'cloud metadata': () => '169.254.169.254',
  'cloud metadata in decimal': () => '2852039166',
  'cloud metadata over IPv6': () => '[fd00:ec2::254]',
  'IPv6 loopback': port => `[::1]:${port}`,
  'IPv6 unspecified': port => `[::]:${port}`,
  'IPv4-mapped IPv6': port => `[::ffff:127.0.0.1]:${port}`,
  'IPv4-mapped IPv6 in hexadecimal': port => `[::ffff:7f00:1]:${port}`,
  'IPv4-compatible IPv6': port => `[::7f00:1]:${port}`,
  NAT64: () => '[64:ff9b::7f00:1]',
  'local NAT64': () => '[64:ff9b:1::7f00:1]',
  '6to4': () => '[2002:7f00:1::1]',
  Teredo: () => '[2001:0:7f00:1::1]',
  'IPv6 link-local': () => '[fe80::1]',
  'IPv6 unique local': () => '[fc00::1]',
  broadcast: () => '255.255.255.255',
  multicast: () => '224.0.0.1',
  'a name that is inside': port => `internal.test:${port}`,
  'a name that is inside and outside': port => `mixed.test:${port}`,
  'a name that is IPv4-mapped': port => `mapped.test:${port}`,
  'a name behind NAT64': () => 'nat64.test',
  'a name behind 6to4': () => 'sixtofour.test',
  'a name of cloud metadata': () => 'metadata.test',
  'a name that is unique local': () => 'unique-local.test',
  'a name that does not exist': () => 'nowhere.test',
  'a user name that looks like the host': port => `public.test@127.0.0.1:${port}`,
  'a user name and a password': () => 'user:hunter2@public.test',
  'a backslash before the host': port => `127.0.0.1:${port}\\@public.test`,
  'a port of SSH': () => 'public.test:22',
  'a port of SMTP': () => 'public.test:25',
}

const schemes: Record<string, string> = {
  'a file': 'file:///etc/passwd',
  FTP: 'ftp://public.test/a',
  gopher: 'gopher://public.test:70/1',
  'a script': 'javascript:alert(1)',
  'a blob': 'blob:https://public.test/a',
  'a WebSocket': 'wss://public.test/a',
  'no scheme': '//public.test/a',
  'no URL': 'not a url',
}

/** Opens a small world of its own: a public server, a service inside that must not be contacted, and names for both. */
export async function openSsrfWorld(): Promise<SsrfWorld> {
  let contacts = 0
  const service = http.createServer((_request, response) => response.end('secret'))
  service.on('connection', () => contacts++)
  service.listen(0, inside)
  await once(service, 'listening')
  const { port } = service.address() as AddressInfo
  const server = http.createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? '/', 'http://public.test')
    const to = searchParams.get('to')
    if (to === null) return world.respond(request, response)
    response.writeHead(302, { location: to }).end()
  })
  server.listen(0, internet)
  await once(server, 'listening')
  const open = (server.address() as AddressInfo).port
  const leading = (to: string, host = 'public.test') => `http://${host}:${open}/?to=${encodeURIComponent(to)}`
  const case_ = (name: string, url: string, redirect = false) => ({ name, url, redirect })
  const world: SsrfWorld = {
    door: {
      allowPrivate: false,
      allowHttp: true,
      resolve: resolver(),
      isPublic: address => address === internet || isPublicAddress(address),
    },
    forbidden: [
      ...Object.entries(hosts).flatMap(([name, host]) =>
        ['http', 'https'].map(scheme => case_(`${name}, ${scheme}`, `${scheme}://${host(port)}/a.png`)),
      ),
      ...Object.entries(schemes).map(([name, url]) => case_(name, url)),
      case_('a redirect to loopback', leading(`http://127.0.0.1:${port}/`), true),
      case_('a redirect to a decimal host', leading(`http://2130706433:${port}/`), true),
      case_('a redirect to IPv4-mapped IPv6', leading(`http://[::ffff:127.0.0.1]:${port}/`), true),
      case_('a redirect to a name inside', leading(`http://internal.test:${port}/`), true),
      case_('a redirect to cloud metadata', leading('http://169.254.169.254/latest/meta-data/'), true),
      case_('a redirect to a file', leading('file:///etc/passwd'), true),
      case_('a redirect by way of another', leading(leading(`http://127.0.0.1:${port}/`)), true),
      case_('a name that turns inside after its check', leading('/again', 'rebind-1.test'), true),
    ],
    url: `http://${internet}:${open}/`,
    respond: (_request, response) => response.writeHead(404).end(),
    contacts: () => contacts,
    async close() {
      for (const one of [service, server]) {
        one.closeAllConnections()
        one.close()
        await once(one, 'close')
      }
    },
  }
  return world
}
