import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer, isIPv6 } from 'node:net'
import { networkInterfaces } from 'node:os'

// Below the range from which systems take ports for outgoing connections: a client that keeps dialling a stopped server
// on a port of that range can end up connected to itself, and the server could not come back.
const firstPort = 20_000
const lastPort = 29_999
const mostTries = 100

/** The address of this machine that only itself can reach: ::1 where there is no IPv4. */
export function loopback(): '127.0.0.1' | '::1' {
  const addresses = Object.values(networkInterfaces()).flatMap(list => list?.map(({ address }) => address) ?? [])
  return addresses.includes('::1') && !addresses.includes('127.0.0.1') ? '::1' : '127.0.0.1'
}

/** An address as URLs have it. */
export function inUrl(address: string): string {
  return isIPv6(address) ? `[${address}]` : address
}

/** Whether a server could listen on this TCP port now. */
export async function portIsFree(port: number, host: string = loopback()): Promise<boolean> {
  const server = createServer()
  try {
    server.listen(port, host)
    await once(server, 'listening')
    server.close()
    await once(server, 'close')
    return true
  } catch {
    return false
  }
}

/** A free loopback port; `preferred` when it is free. Throws an Error when none is found. */
export async function freePort(preferred?: number): Promise<number> {
  if (preferred !== undefined && (await portIsFree(preferred))) return preferred
  for (let tries = 0; tries < mostTries; tries++) {
    const port = randomInt(firstPort, lastPort + 1)
    if (await portIsFree(port)) return port
  }
  throw new Error(`no free port between ${firstPort} and ${lastPort}`)
}

/** The first free port of a host at `first` or just above it. Throws an Error when none of 100 is free. */
export async function nextFreePort(first: number, host: string): Promise<number> {
  for (let port = first; port < first + mostTries; port++) {
    if (await portIsFree(port, host)) return port
  }
  throw new Error(`no free port between ${first} and ${first + mostTries - 1}`)
}
