import { z } from 'zod'
import { type Endpoint, endpoint } from '../endpoint.ts'
import { openApiDocument } from '../openapi/document.ts'

/** Builds the document from all endpoints, including this one, which is why they are passed as a function. */
export function openApi(endpoints: () => readonly Endpoint[]): Endpoint {
  let document: Promise<Buffer> | null = null
  return endpoint({
    method: 'get',
    tag: 'Service',
    access: 'public',
    path: '/openapi.json',
    operationId: 'getOpenApiDocument',
    summary: 'Retrieve the OpenAPI document',
    answers: {
      200: {
        description: 'Returns the OpenAPI document, generated from the schemas that validate requests.',
        schema: z.looseObject({ openapi: z.string() }).meta({ id: 'OpenApiDocument' }),
      },
    },
    async handle({ ctx }) {
      document ??= openApiDocument(endpoints()).then(json => Buffer.from(JSON.stringify(json)))
      ctx.type = 'application/json'
      ctx.body = await document
    },
  })
}
