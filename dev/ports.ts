import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer, isIPv6 } from 'node:net'
import { networkInterfaces } from 'node:os'

// Below the ephemeral port range: a client that keeps dialling a stopped server on an ephemeral port can connect to itself,
// and the server could not bind the port again.
const firstPort = 20_000
const lastPort = 29_999
const maxTries = 100
const maxStarts = 3

/** The loopback address: ::1 where there is no IPv4. */
export function loopback(): '127.0.0.1' | '::1' {
  const addresses = Object.values(networkInterfaces()).flatMap(list => list?.map(({ address }) => address) ?? [])
  return addresses.includes('::1') && !addresses.includes('127.0.0.1') ? '::1' : '127.0.0.1'
}

/** Formats an address for URLs. */
export function inUrl(address: string): string {
  return isIPv6(address) ? `[${address}]` : address
}

/** Whether this TCP port is free to listen on. */
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
  for (let tries = 0; tries < maxTries; tries++) {
    const port = randomInt(firstPort, lastPort + 1)
    if (await portIsFree(port)) return port
  }
  throw new Error(`no free port between ${firstPort} and ${lastPort}`)
}

/**
 * Starts a server on a free loopback port: `preferred` when it is free. Another process may take a port between the check
 * and the start; then the start is tried again on another port. Throws what `start` throws.
 */
export async function onFreePort<T>(preferred: number | undefined, start: (port: number) => Promise<T>): Promise<T> {
  let port = await freePort(preferred)
  for (let starts = 1; ; starts++) {
    try {
      return await start(port)
    } catch (error) {
      if (starts === maxStarts || !/address already in use/i.test(String(error))) throw error
      port = await freePort()
    }
  }
}

/** The first free port of a host from `first` on. Throws an Error when none of 100 is free. */
export async function nextFreePort(first: number, host: string): Promise<number> {
  for (let port = first; port < first + maxTries; port++) {
    if (await portIsFree(port, host)) return port
  }
  throw new Error(`no free port between ${first} and ${first + maxTries - 1}`)
}
