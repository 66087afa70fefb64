import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Services } from '../shared/open-services.ts'
import { isForm } from './body/read-body.ts'
import type { Endpoint } from './endpoint.ts'
import { googleModelsUrl } from './google-dialect.ts'
import { withSingleSlashes } from './http-server.ts'
import { closeRequest, failRequest, openRequest, serveRequest } from './request-lifecycle.ts'
import { fixedPathEndpoints } from './route-table.ts'

/** Anthropic's clients add it to every request. */
const betaQuery = '?beta=true'

/**
 * Dispatches requests: those to endpoints that bypass Koa directly, all others, and those with another query or a form, to
 * `app`.
 */
export function directDispatch(services: Services, app: RequestListener): RequestListener {
  const posts = fixedPathEndpoints('POST')!
  return (request, response) => {
    request.url = withSingleSlashes(request.url!)
    if (request.method === 'GET') request.url = googleModelsUrl(request)
    const endpoint = request.method === 'POST' ? posts.get(pathOf(request.url)) : undefined
    if (endpoint?.bypassesKoa && !isForm(request)) void serveDirect(services, endpoint, request, response)
    else app(request, response)
  }
}

function pathOf(url: string): string {
  return url.endsWith(betaQuery) ? url.slice(0, -betaQuery.length) : url
}

async function serveDirect(
  services: Services,
  endpoint: Endpoint,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const state = openRequest(services, request, response, 'POST', endpoint.path)
  try {
    await serveRequest(endpoint, state)
  } catch (error) {
    failRequest(state, error)
  }
  closeRequest(state, response.statusCode)
}
