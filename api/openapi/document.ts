import type { Endpoint } from '../endpoint.ts'
import { Components, type Json } from './components.ts'
import { buildOperation } from './operation.ts'
import { tags } from './tags.ts'
import { buildWebhooks } from './webhooks.ts'

const description = `One API for every kind of generative model. Chat, completions, embeddings, images, audio, files
and batches follow the OpenAI API: point an OpenAI client at \`/v1\`.

Authenticate with a standard key as \`Authorization: Bearer …\` or \`x-api-key\`. Requests with test keys (\`svc_sk_test_…\`) are served
by a sandbox, free of charge. Every error has the same shape and a stable \`code\`; every response has an \`x-request-id\`.`

/** Builds the OpenAPI 3.1 document of the endpoints from the schemas that validate their requests. */
export function openApiDocument(endpoints: readonly Endpoint[]): Json {
  const components = new Components()
  const paths: Record<string, Json> = {}
  for (const endpoint of endpoints)
    paths[endpoint.path] = { ...paths[endpoint.path], [endpoint.method]: buildOperation(endpoint, components) }
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
