import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { type Endpoint, endpoint } from '../endpoint.ts'
import { openApiDocument } from '../openapi/document.ts'

const shared = { method: 'get', tag: 'Service', access: 'public' } as const

/** Builds the document from all endpoints, including this one, which is why they are passed as a function. */
export function openApi(endpoints: () => readonly Endpoint[]): Endpoint {
  let document: string | null = null
  return endpoint({
    ...shared,
    path: '/openapi.json',
    operationId: 'getOpenApiDocument',
    summary: 'Retrieve the OpenAPI document',
    answers: {
      200: {
        description: 'Returns the OpenAPI document, generated from the schemas that validate requests.',
        schema: z.looseObject({ openapi: z.string() }).meta({ id: 'OpenApiDocument' }),
      },
    },
    handle({ ctx }) {
      document ??= JSON.stringify(openApiDocument(endpoints()))
      ctx.type = 'application/json'
      ctx.body = document
    },
  })
}

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Headgate API reference</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="reference"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`
const startScript = `SwaggerUIBundle({ url: '/openapi.json', dom_id: '#reference', deepLinking: true, validatorUrl: null })\n`

export const docsPage = endpoint({
  ...shared,
  path: '/docs',
  operationId: 'getReference',
  summary: 'Show the API reference',
  answers: { 200: { description: 'The reference page.', contentType: 'text/html' } },
  handle({ ctx }) {
    ctx.type = 'text/html'
    ctx.set('content-security-policy', "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:")
    ctx.body = page
  },
})

const assets: Readonly<Record<string, string>> = {
  'swagger-ui.css': 'text/css',
  'swagger-ui-bundle.js': 'text/javascript',
  'start.js': 'text/javascript',
}
const loaded = new Map<string, string>()

export const docsAsset = endpoint({
  ...shared,
  path: '/docs/{asset}',
  operationId: 'getReferenceAsset',
  summary: 'Retrieve an asset of the reference page',
  answers: { 200: { description: 'A style sheet or script.', contentType: 'text/javascript', also: ['text/css'] } },
  errors: ['not_found'],
  handle({ params, ctx }) {
    const { asset = '' } = params
    const type = Object.hasOwn(assets, asset) ? assets[asset] : undefined
    if (!type) throw new GatewayError('not_found', 'No such asset.')
    ctx.type = type
    ctx.set('cache-control', 'public, max-age=86400')
    ctx.body = assetText(asset)
  },
})

function assetText(asset: string): string {
  if (asset === 'start.js') return startScript
  let text = loaded.get(asset)
  if (text === undefined) {
    const folder = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'))
    text = readFileSync(join(folder, asset), 'utf8')
    loaded.set(asset, text)
  }
  return text
}
