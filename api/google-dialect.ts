import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { keyHeader } from './auth/api-keys.ts'

/** Where requests of Google's clients differ from others: their paths, and how they send the key. */

const methods = 'generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents'
const googlePath = new RegExp(`^/v1(?:beta1?|alpha)/|:(?:${methods})$`)

/** Whether the responses of a path have the format of Google's API. */
export function isGooglePath(path: string): boolean {
  return googlePath.test(path)
}

/** The versions of a path of the Gemini API, and the paths of Vertex AI; `method` follows the model. */
export function googleAliases(method: string): string[] {
  const ofGemini = ['/v1', '/v1alpha'].map(version => `${version}/models/{model}:${method}`)
  const inProject = '/projects/{project}/locations/{location}'
  const ofVertex = ['/v1', '/v1beta1'].flatMap(version =>
    [inProject, ''].map(place => `${version}${place}/publishers/{publisher}/models/{model}:${method}`),
  )
  return [...ofGemini, ...ofVertex]
}

/**
 * The model that a path names: clients add `models/` to ids that have a slash already, and those of Vertex AI put what is before
 * the slash in place of Google as the publisher (@google/genai, `tModel`).
 */
export function modelInPath({ model = '', publisher = 'google' }: Record<string, string>): string {
  const id = model.replace(/^(?:models\/)+/, '')
  return publisher === 'google' ? id : `${publisher}/${id}`
}

/**
 * The header with the key of a request to Google's paths: of `Authorization`, `x-api-key`, `x-goog-api-key`, else `?key=`, in
 * this order. The key is removed from the URL, so that nothing can log it.
 */
export function googleKeyHeader(request: Pick<IncomingMessage, 'headers' | 'url'>): string | undefined {
  const inUrl = takeKey(request)
  const { headers } = request
  const given = keyHeader(headers as IncomingHttpHeaders)
  if (given) return given
  const key = headers['x-goog-api-key'] || inUrl
  return typeof key === 'string' && key !== '' ? `Bearer ${key}` : undefined
}

/** Removes the key from the URL of a request, and returns it; null if there is none. */
function takeKey(request: Pick<IncomingMessage, 'url'>): string | null {
  const [path = '', search] = (request.url ?? '').split('?', 2)
  if (search === undefined) return null
  const query = new URLSearchParams(search)
  const key = query.get('key')
  if (key === null) return null
  query.delete('key')
  request.url = query.size > 0 ? `${path}?${query}` : path
  return key
}
