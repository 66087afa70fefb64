import { setImmediate } from 'node:timers/promises'
import type { Endpoint } from '../endpoint.ts'
import { Components, type Json } from './components.ts'
import { buildOperation } from './operation.ts'
import { tags } from './tags.ts'
import { buildWebhooks } from './webhooks.ts'

/**
 * `/openapi.json` is used by people, linters and client generators, each with their own quirks. It must match the
 * server, and the clients generated from it must compile and work.
 *
 * - One source. Paths, bodies, answers and errors come from the declarations that serve requests (`api/openapi/`).
 *   Descriptions and defaults are declared beside the Zod schemas. `.meta({ default })` documents a default that is
 *   applied after validation; `x-default` does so where Zod drops it, and `x-internal` keeps a field out of the
 *   document.
 * - `operationId` is declared, not derived from the path: it is the method's name in generated clients, so a path may
 *   change and the name may not. A route without one fails `test/api/openapi-document.test.ts`.
 * - Request bodies are `components.requestBodies`, with inline schemas. openapi-typescript makes a field with a
 *   default required, except below `requestBodies`: as `components.schemas` every client would have to send `stream`
 *   and `n`. The parts of bodies are in `components.schemas`, without defaults. So is a body inside another (a chat
 *   completion in a delayed job): oapi-codegen follows no reference into `requestBodies`.
 * - Rules between fields are `oneOf` of `required`, and `dependentRequired`. Generators ignore them; validators do
 *   not.
 * - Errors are one schema. Each answer names its codes and has an example of each; answers of the same codes are one
 *   component.
 * - Forms come first where OpenAI has a form. hey-api prefers JSON wherever there is JSON, regardless of order; its
 *   configuration can exclude it. Files are `type: string` with `format: binary`, which generators support, and
 *   `contentMediaType`, the 3.1 form. A form has only the fields that it can carry: no objects, no lists except
 *   repeatable fields, no null.
 * - The server is `/`: a reader of the document has its address, which `PUBLIC_URL` behind a proxy may not be.
 * - Discriminators are added to unions of named objects that differ by the constant of one field.
 *
 * `test/api/openapi-document.test.ts` walks the document, so additions are checked. `test/api/openapi.test.ts`
 * validates answers and their headers against it and sends every example to the server. `npm run test:clients`
 * generates both clients from a running gateway, compiles and uses them, and requires redocly to report no warnings.
 */

const description = `One API for every kind of generative model. Chat, completions, embeddings, images, audio, files
and batches follow the OpenAI API: point an OpenAI client at \`/v1\`.

Authenticate with a standard key as \`Authorization: Bearer …\` or \`x-api-key\`. Requests with test keys (\`svc_sk_test_…\`) are served
by a sandbox, free of charge. Every error has the same shape and a stable \`code\`; every response has an \`x-request-id\`.`

/**
 * Builds the OpenAPI 3.1 document of the endpoints from the schemas that validate their requests. That takes half a second, so
 * each endpoint has its own turn of the event loop, and other requests are answered between them.
 */
export async function openApiDocument(endpoints: readonly Endpoint[]): Promise<Json> {
  const components = new Components()
  const paths: Record<string, Json> = {}
  for (const endpoint of endpoints) {
    paths[endpoint.path] = { ...paths[endpoint.path], [endpoint.method]: buildOperation(endpoint, components) }
    await setImmediate()
  }
  const webhooks = buildWebhooks(components)
  return {
    openapi: '3.1.0',
    info: { title: 'Headgate', version: '1', description, license: { name: 'MIT', identifier: 'MIT' } },
    servers: [{ url: '/', description: 'The gateway that serves this document.' }],
    tags,
    paths,
    webhooks,
    components: { ...components.toJson(), securitySchemes },
  }
}

const securitySchemes = {
  key: { type: 'http', scheme: 'bearer', description: 'A standard key, `svc_sk_live_…` or `svc_sk_test_…`.' },
  apiKey: {
    type: 'apiKey',
    in: 'header',
    name: 'x-api-key',
    description: 'The same standard key. If both headers are sent, the one with the form of a key is used.',
  },
  provisioning: { type: 'http', scheme: 'bearer', description: 'A provisioning key, `svc_pk_…`.' },
}
