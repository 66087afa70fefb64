import { z } from 'zod'
import type { Config } from '../base/config.ts'
import { GatewayError } from '../base/errors.ts'
import { proxyFor } from '../base/proxies.ts'
import { systemClock } from '../base/time.ts'
import { serverProtocol } from '../catalog/overrides.ts'
import { openPool } from '../io/http.ts'
import { authHeader } from './connections.ts'
import { openConnection } from './open-connection.ts'
import { protocols } from './protocols.ts'
import { ProviderError } from './provider-error.ts'

const timeoutMs = 10_000
const maxModels = 1_000
const maxReasonLength = 200

const modelList = z.object({ data: z.array(z.object({ id: z.string().max(200) })) })

/** The ids of the models that an OpenAI-compatible server lists. Throws 400 if it does not answer with a list. */
export async function listServerModels(
  baseUrl: string,
  apiKey: string | null,
  { upstream: timeouts, proxies }: Pick<Config, 'upstream' | 'proxies'>,
): Promise<{ models: string[]; has_more: boolean }> {
  const base = new URL(baseUrl)
  const provider = {
    name: 'server',
    protocol: serverProtocol,
    base_url: baseUrl,
    auth: apiKey === null ? 'none' : 'bearer',
  } as const
  const proxy = proxyFor(base, proxies)
  const pool = openPool(base.origin, timeouts, 1, proxy)
  const connection = openConnection({
    provider,
    protocol: protocols[serverProtocol]!,
    pool,
    proxy,
    baseUrl: base.href.replace(/\/+$/, ''),
    prefix: base.pathname.replace(/\/+$/, ''),
    timeouts: { ...timeouts, firstByteTimeoutMs: timeoutMs, totalTimeoutMs: timeoutMs },
    authorize: () => authHeader(provider.auth, apiKey ?? '', systemClock.now()),
  })
  try {
    const { json } = await connection.send({ method: 'GET', path: '/models' })
    const list = modelList.safeParse(json)
    if (!list.success) throw notConnected('GET /models did not return a list of models.')
    const ids = list.data.data.map(({ id }) => id)
    return { models: ids.slice(0, maxModels), has_more: ids.length > maxModels }
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    const status = error.status === null ? error.reason : `HTTP ${error.status}`
    throw notConnected(`${status}: ${error.message.replaceAll(apiKey || '\0', '…').slice(0, maxReasonLength)}`)
  } finally {
    void pool.destroy()
  }
}

function notConnected(reason: string): GatewayError {
  return new GatewayError('invalid_request', `The server cannot be used: ${reason}`, { param: 'base_url' })
}
