import { maxOcrBodyBytes, ocrFields, ocrRequest } from '../../shared/kinds/ocr.ts'
import { deliverOcr } from '../../shared/media/ocr.ts'
import { omittedFieldsExcept } from '../../shared/providers/toolkit/request-fields.ts'
import { endpointWithoutKoa } from '../endpoint.ts'
import { generationHeaders } from '../schemas/headers.ts'
import { ocrAnswer } from '../schemas/media.ts'
import { modelErrors } from './model-errors.ts'
import { timeoutHeader } from './request-headers.ts'
import { runMediaRequest } from './run-media-request.ts'

export const readDocument = endpointWithoutKoa({
  method: 'post',
  path: '/v1/ocr',
  operationId: 'readDocument',
  tag: 'OCR',
  summary: 'Read a document',
  description:
    'Reads the pages of a document or an image as Markdown, in Mistral’s shape. Billed per page. A document is of at most 50 MiB; inside of the body, of 24 MiB. Other fields are left out and named in `x-gateway-dropped`.',
  access: { scope: '*' },
  headers: [timeoutHeader],
  body: ocrRequest,
  maxBodyBytes: maxOcrBodyBytes,
  example: {
    model: 'mistral-ocr-latest',
    document: { type: 'document_url', document_url: 'https://example.com/report.pdf' },
    pages: '0-4',
  },
  answers: { 200: { description: 'The pages.', schema: ocrAnswer, headers: generationHeaders } },
  errors: [...modelErrors, 'url_not_allowed', 'file_too_large', 'quota_exceeded'],
  handle(request) {
    const { body } = request
    const dropped = omittedFieldsExcept(body, ocrFields)
    return runMediaRequest(request, { kind: 'ocr', body, dropped, deliver: deliverOcr })
  },
})
