import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../../shared/base/errors.ts'
import type { StoredFile } from '../../shared/jobs/files.ts'
import { storeUpload } from '../../shared/media/uploads.ts'
import type { Context, Endpoint, Form } from '../endpoint.ts'
import { validate } from './body.ts'
import { isMultipart, readMultipart, unknown } from './multipart.ts'

export const isForm: (request: IncomingMessage) => boolean = isMultipart

/**
 * Takes in the form of a request: its file goes into storage as it arrives, its fields become the body. Throws 400, 413 and
 * 415 naming the field.
 */
export async function takeForm({ body }: Endpoint, { file, toBody }: Form, ctx: Context): Promise<void> {
  const { services, known } = ctx.state
  const form = await readMultipart<StoredFile>(ctx.req, {
    file: file.name,
    take: part =>
      storeUpload(services, known.policy.organisationId, part).catch(error => Promise.reject(naming(error, file.name))),
    undo: stored => services.files.remove([stored]),
  })
  ctx.state.raw = form.digest
  ctx.state.upload = form.file
  if (!form.file && file.required)
    throw new GatewayError('missing_field', `\`${file.name}\` is required.`, { param: file.name })
  if (toBody && body) ctx.state.body = validate(body, await toBody(form.fields, form.file, services))
  else for (const name of Object.keys(form.fields)) throw unknown(name)
}

/** Removes the file of a request that came to nothing. */
export async function dropUpload({ state: { services, upload } }: Context): Promise<void> {
  if (!upload) return
  await services.files
    .remove([upload])
    .catch(error => services.log.warn({ err: error }, 'an upload stays until it expires'))
}

function naming(error: unknown, param: string): unknown {
  if (!(error instanceof GatewayError) || error.param !== null) return error
  const { code, message, headers, cause } = error
  return new GatewayError(code, message, { param, headers, cause })
}
