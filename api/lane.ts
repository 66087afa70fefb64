import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Services } from '../shared/open-services.ts'
import type { Endpoint } from './endpoint.ts'
import { isForm } from './middleware/form.ts'
import { withSingleSlashes } from './request-head.ts'
import { closeRequest, failRequest, openRequest, serveRequest } from './request-lifecycle.ts'
import { endpoints } from './routes/index.ts'

/** Anthropic's clients add it to every request. */
const betaQuery = '?beta=true'

/** Requests to direct endpoints bypass Koa (`app`), which handles all others, and those with another query or a form. */
export function withLane(services: Services, app: RequestListener): RequestListener {
  const lane = new Map(endpoints.filter(({ direct }) => direct).map(endpoint => [endpoint.path, endpoint]))
  return (request, response) => {
    request.url = withSingleSlashes(request.url!)
    const endpoint = request.method === 'POST' ? lane.get(pathOf(request.url)) : undefined
    if (endpoint && !isForm(request)) void serveDirect(services, endpoint, request, response)
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
