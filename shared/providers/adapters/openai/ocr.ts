import { isObject } from '../../../base/is-object.ts'
import { unsupported } from '../../../kinds/media.ts'
import type { OcrOutput, OcrPage } from '../../../kinds/ocr.ts'
import type { SyncAdapter, SyncCall } from '../../contract.ts'
import { invalidResponse } from '../../toolkit/json-fields.ts'

/** No byte is sent before all pages are read; Mistral's own client waits as long (`ocrProcess.ts` of `@mistralai/mistralai`). */
const firstByteMs = 5 * 60_000
/** The text of a thousand pages, and their images where these are asked for. */
const maxBytes = 64 << 20

/** `POST /ocr` of Mistral (`OCRRequest` and `OCRResponse` of `@mistralai/mistralai`). */
export const ocr: SyncAdapter<'ocr'> = {
  async make(call, connection) {
    const { annotatedBy } = call.input
    const { model, deployment } = call.target
    const { price } = deployment
    if (annotatedBy && price.unit === 'page' && price.annotated === undefined)
      throw unsupported(model, annotatedBy, 'does not annotate documents')
    const json = await bodyOf(call)
    const request = { method: 'POST', path: '/ocr', json, firstByteMs, maxBytes, signal: call.signal } as const
    return outputFrom((await connection.send(request)).json)
  },
}

async function bodyOf({ input, target, sources }: SyncCall<'ocr'>): Promise<object> {
  const source = sources.get(input.field)!
  const given = await source.link()
  // Only https URLs are fetched.
  const link = given.startsWith('http:') ? `data:${source.contentType};base64,${await source.base64()}` : given
  return {
    model: target.deployment.upstream_model,
    // A document that is an image is refused as `document_url`, and the other way round.
    document: source.contentType.startsWith('image/')
      ? { type: 'image_url', image_url: link }
      : { type: 'document_url', document_url: link, document_name: input.documentName ?? source.filename },
    ...input.options,
  }
}

function outputFrom(json: unknown): OcrOutput {
  if (!isObject(json) || !Array.isArray(json.pages)) throw invalidResponse('it has no `pages`')
  const usage = isObject(json.usage_info) ? json.usage_info : {}
  return {
    pages: json.pages.map(pageFrom),
    documentAnnotation: typeof json.document_annotation === 'string' ? json.document_annotation : null,
    pagesProcessed: countFrom(usage.pages_processed),
    annotatedPages: countFrom(usage.pages_processed_annotation),
    documentBytes: countFrom(usage.doc_size_bytes),
  }
}

function pageFrom(page: unknown): OcrPage {
  if (isObject(page) && countFrom(page.index) !== null && typeof page.markdown === 'string') return page as OcrPage
  throw invalidResponse('a page has no `index` or no `markdown`')
}

function countFrom(value: unknown): number | null {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : null
}
