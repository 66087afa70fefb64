import { join } from 'node:path'
import type { UserConfig } from '@hey-api/openapi-ts'

/** Leaves a body its form. */
function onlyForm(body: object): void {
  if ('content' in body) delete (body.content as Record<string, unknown>)['application/json']
}

/** hey-api with its fetch client and its zod plugin; `folder` has the document. */
export function heyApiConfig(folder: string): UserConfig {
  return {
    input: join(folder, 'openapi.json'),
    // Node runs the files as they are.
    output: { path: join(folder, 'hey-api'), module: { extension: '.ts' } },
    plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk', 'zod'],
    logs: { level: 'silent' },
    // It takes one content type of a body, JSON if there is any: here the form, which has files.
    parser: {
      patch: {
        requestBodies: {
          CreateImageEditBody: onlyForm,
          CreateTranscriptionBody: onlyForm,
          CreateVideoBody: onlyForm,
        },
      },
    },
  }
}
