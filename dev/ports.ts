import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

// Below the range from which systems take ports for outgoing connections: a client that keeps dialling a stopped server
// on a port of that range can end up connected to itself, and the server could not come back.
const firstPort = 20_000
const lastPort = 29_999
const mostTries = 100

/** Whether a server could listen on this TCP port now. */
export async function portIsFree(port: number, host = '127.0.0.1'): Promise<boolean> {
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

/** The first free port at `first` or just above it, on every interface. Throws an Error when none of 100 is free. */
export async function nextFreePort(first: number): Promise<number> {
  for (let port = first; port < first + mostTries; port++) {
    if (await portIsFree(port, '0.0.0.0')) return port
  }
  throw new Error(`no free port between ${first} and ${first + mostTries - 1}`)
}
