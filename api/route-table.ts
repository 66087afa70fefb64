import Router from '@koa/router'
import { dashboardEndpoints } from './dashboard/routes/index.ts'
import type { Context, Endpoint } from './endpoint.ts'
import { endpoints } from './routes/index.ts'
import type { State } from './state.ts'

// How an endpoint is found. Those of the API whose path has no parameter, the busiest among them, by one lookup, whether
// the request bypasses Koa (`directDispatch`) or not; all others by Koa's router.

const byMethod = Map.groupBy(
  endpoints.filter(({ path }) => !path.includes('{')),
  ({ method }) => method.toUpperCase(),
)
const fixedPaths = new Map(
  Array.from(byMethod, ([method, own]) => [method, new Map(own.map(endpoint => [endpoint.path, endpoint]))]),
)

/** The endpoints of a method whose path has no parameter, by path. */
export function fixedPathEndpoints(method: string): ReadonlyMap<string, Endpoint> | undefined {
  return fixedPaths.get(method)
}

/** The router of every endpoint, which also tells which methods a path has. */
export function createRouter(serve: (endpoint: Endpoint, ctx: Context) => Promise<void>): Router<State> {
  const router = new Router<State>()
  for (const endpoint of [...endpoints, ...dashboardEndpoints]) {
    for (const path of [endpoint.path, ...(endpoint.aliases ?? [])])
      router[endpoint.method](patternOf(path, endpoint), ctx => serve(endpoint, ctx as unknown as Context))
  }
  return router
}

/** The router's form of a path. A colon in it is a character, of the methods of Google's API. */
function patternOf(path: string, { deep }: Endpoint): string {
  const last = path.lastIndexOf('{')
  return path
    .replaceAll(':', '\\:')
    .replace(/\{(\w+)\}/g, (_, name: string, at: number) => (deep && at >= last ? `*${name}` : `:${name}`))
}
