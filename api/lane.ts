import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Services } from '../shared/services.ts'
import type { Endpoint } from './endpoint.ts'
import { isForm } from './middleware/form.ts'
import { closePassage, failPassage, openPassage, serve } from './passage.ts'
import { endpoints } from './routes/index.ts'

/** Requests to direct endpoints go past the framework `app`, which takes all others, and also those with a query or a form. */
export function withLane(services: Services, app: RequestListener): RequestListener {
  const lane = new Map(endpoints.filter(({ direct }) => direct).map(endpoint => [endpoint.path, endpoint]))
  return (request, response) => {
    const endpoint = request.method === 'POST' ? lane.get(request.url!) : undefined
    if (endpoint && !isForm(request)) void pass(services, endpoint, request, response)
    else app(request, response)
  }
}

async function pass(
  services: Services,
  endpoint: Endpoint,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const state = openPassage(services, request, response, 'POST', endpoint.path)
  try {
    await serve(endpoint, state)
  } catch (error) {
    failPassage(state, error)
  }
  closePassage(state, response.statusCode)
}
