import { z } from 'zod'
import { loadOnce } from '../../shared/base/load-once.ts'
import { type Endpoint, endpoint } from '../endpoint.ts'
import { openApiDocument } from '../openapi/document.ts'

/** Builds the document from all endpoints, including this one, which is why they are passed as a function. */
export function openApi(endpoints: () => readonly Endpoint[]): Endpoint {
  const document = loadOnce(async () => Buffer.from(JSON.stringify(await openApiDocument(endpoints()))))
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
      ctx.type = 'application/json'
      ctx.body = await document()
    },
  })
}
