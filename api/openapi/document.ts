import type { Endpoint } from '../endpoint.ts'
import { Components, type Json } from './components.ts'
import { operation } from './operation.ts'
import { tags } from './tags.ts'
import { webhooks } from './webhooks.ts'

const description = `One API in front of every kind of generative model. Chat, completions, embeddings, images, audio, files
and batches have the OpenAI shape: point an OpenAI client at \`/v1\`.

Send a standard key as \`Authorization: Bearer …\` or as \`x-api-key\`. Test keys (\`svc_sk_test_…\`) are answered by a sandbox,
free of charge. Every error has one shape and a stable \`code\`; every answer has an \`x-request-id\`.`

/** The OpenAPI 3.1 document of the given endpoints, made from the very schemas that validate their requests. */
export function openApiDocument(endpoints: readonly Endpoint[]): Json {
  const components = new Components()
  const paths: Record<string, Json> = {}
  for (const endpoint of endpoints)
    paths[endpoint.path] = { ...paths[endpoint.path], [endpoint.method]: operation(endpoint, components) }
  const sent = webhooks(components)
  return {
    openapi: '3.1.0',
    info: { title: 'Headgate', version: '1', description, license: { name: 'MIT', identifier: 'MIT' } },
    servers: [{ url: '/', description: 'The gateway that serves this document.' }],
    tags,
    paths,
    webhooks: sent,
    components: { ...components.toJson(), securitySchemes },
  }
}

const securitySchemes = {
  key: { type: 'http', scheme: 'bearer', description: 'A standard key, `svc_sk_live_…` or `svc_sk_test_…`.' },
  apiKey: {
    type: 'apiKey',
    in: 'header',
    name: 'x-api-key',
    description: 'The same standard key. Where both headers are sent, the one that has the form of a key counts.',
  },
  provisioning: { type: 'http', scheme: 'bearer', description: 'A provisioning key, `svc_pk_…`.' },
}
