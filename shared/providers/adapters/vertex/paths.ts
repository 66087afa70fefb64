import type { ProviderConnection, UpstreamRequest } from '../../contract.ts'

const ofGemini = /^\/v1beta\/models\//
/** The path of Google's models, below the base URL of a project and location. */
export const modelsPath = '/publishers/google/models/'

/** A request of the Gemini API as one to Vertex AI. */
export function atVertex(request: UpstreamRequest): UpstreamRequest {
  return { ...request, path: request.path.replace(ofGemini, modelsPath) }
}

/** A connection to Vertex AI for requests of the Gemini API. */
export function connectionAtVertex(connection: ProviderConnection): ProviderConnection {
  const moved = <Request extends { path: string }>(request: Request): Request => ({
    ...request,
    path: request.path.replace(ofGemini, modelsPath),
  })
  return {
    ...connection,
    send: request => connection.send(moved(request)),
    stream: request => connection.stream(moved(request)),
  }
}
