import type { IncomingMessage } from 'node:http'

/** The paths of Google's clients. How they send their keys is in `auth/api-keys.ts`. */

const methods = 'generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents'
/** Google's own paths of OpenAI's format have its errors. */
const googlePath = new RegExp(`^/v1(?:beta1?|alpha)/(?!openai/)|:(?:${methods})$`)
const inPlace = '(?:/projects/[^/]+/locations/[^/]+)?/publishers/[^/]+'
const route = new RegExp(
  `^POST /v1(?:(?:beta|alpha)?|(?:beta1)?${inPlace})/models/.+:(?:${methods})$|^GET /v1(?:beta|alpha)/models(?:/.+)?$`,
)

/** Whether the responses of a path have the format of Google's API. */
export function isGooglePath(path: string): boolean {
  return googlePath.test(path)
}

/** Whether a route of our own has a path of Google's API. */
export function isGoogleRoute(method: string, path: string): boolean {
  return route.test(`${method} ${path}`)
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
 * The URL of a request, in Google's version for its clients that ask for `/v1/models`, which is OpenAI's list: google-genai for Python
 * does so since version 3.
 */
export function googleModelsUrl({ url = '', headers }: Pick<IncomingMessage, 'url' | 'headers'>): string {
  const isGoogle = headers['x-goog-api-key'] !== undefined || headers['x-goog-api-client'] !== undefined
  return isGoogle && /^\/v1\/models(?:[/?]|$)/.test(url) ? `/v1beta${url.slice('/v1'.length)}` : url
}
