import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Config } from '../shared/base/config.ts'
import { GatewayError } from '../shared/base/errors.ts'
import { collect, openPool, timeoutsWithin } from '../shared/io/http.ts'
import { directKinds } from '../shared/kinds/index.ts'
import type { Platform } from '../shared/platform.ts'
import { chatFeatures } from '../shared/routing/features.ts'
import { type RoutingPolicy, snapshotOf } from '../shared/routing/options.ts'
import { route } from '../shared/routing/router.ts'
import { createHttpServer } from './http-server.ts'

const exchangeMs = 5_000
const maxAnswerBytes = 64 * 1_024
const example = JSON.stringify({ model: 'auto', messages: [{ role: 'user', content: 'Write a short greeting.' }] })

/**
 * Returns to the system what loading has left in the heap, and runs parts of a chat request before the port is opened, so that no
 * client waits while they are compiled: reading the signing secret, by which sessions are named, and with it the database client; the
 * request's schema and a decision; a request to a server of this process through the client that calls providers.
 */
export async function warmUp(services: Platform, handle: RequestListener): Promise<void> {
  collectGarbage()
  try {
    await services.signingSecret.get()
    decide(services)
    await exchangeWithSelf(services.config, handle)
  } catch (error) {
    // The first requests do the same, or are refused for the same reason.
    services.log.warn({ err: error }, 'warm-up')
  }
}

function decide(services: Platform): void {
  const request = directKinds.chat.parse(JSON.parse(example))
  const features = chatFeatures(request, example.length)
  const inputs = snapshotOf(services, services.config.marginPpm)
  const policy: RoutingPolicy = {
    keyId: 'warm-up',
    environment: 'test',
    mode: 'balanced',
    allowlist: null,
    deniedTiers: null,
    provider: null,
    ownKeys: null,
  }
  try {
    route(inputs, { policy, kind: 'chat', request, features }, 'log')
  } catch (error) {
    // No provider is configured.
    if (!(error instanceof GatewayError)) throw error
  }
}

/** Sends `GET /healthz`, which is not logged, over loopback. */
async function exchangeWithSelf(config: Config, handle: RequestListener): Promise<void> {
  const { server } = createHttpServer(config, handle)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const timeouts = timeoutsWithin(exchangeMs)
  const pool = openPool(`http://127.0.0.1:${port}`, timeouts, 1)
  try {
    await collect(pool, { method: 'GET', path: '/healthz', headers: {}, body: null }, timeouts, maxAnswerBytes)
  } finally {
    await pool.close()
    server.close()
  }
}

/**
 * Collects all garbage and gives the memory back: a third of a process that has just loaded its modules, which would stay resident
 * until V8's next full collection, after minutes or hours. It takes a quarter of a second, so it comes before the first request. The
 * bytecode stays, because requests need it.
 */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  setFlagsFromString('--no-flush-bytecode')
  const collectAll = runInNewContext('gc') as NodeJS.GCFunction
  collectAll({ type: 'major', flavor: 'last-resort' })
  setFlagsFromString('--flush-bytecode')
}
