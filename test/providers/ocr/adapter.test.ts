import { Mistral } from '@mistralai/mistralai'
import { HTTPValidationError, MistralError } from '@mistralai/mistralai/models/errors'
import type { OcrInput } from '../../../shared/kinds/ocr.ts'
import { openai } from '../../../shared/providers/adapters/openai/protocol.ts'
import { startMistralOcr } from '../../emulators/mistral-ocr.ts'
import { hidden, sourceOf } from '../../support/jobs/sources.ts'
import { conforms, syncCallOf } from '../../support/media/adapter.ts'
import { pdfOfPages } from '../../support/media/documents.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const json_schema = { name: 'report', schema: { type: 'object', properties: { title: { type: 'string' } } } }
const bytes = pdfOfPages(3)
const pdf = sourceOf('https://files.example/report.pdf', 'application/pdf', null, bytes)
const scan = sourceOf('https://files.example/scan.png', 'image/png')
const input: OcrInput = {
  field: 'document.document_url',
  documentName: null,
  options: {},
  annotatedBy: null,
  pages: 3,
  maxPages: 3,
}
const call = (more: Partial<OcrInput>, source = pdf) =>
  syncCallOf<'ocr'>('mistral', 'mistral-ocr-4-0', { ...input, ...more }, { [input.field]: source })

conforms(test, {
  name: 'documents of mistral',
  provider: 'mistral',
  protocol: openai,
  kind: 'ocr',
  start: startMistralOcr,
  call: () => call({}),
  others: {
    'an image': () => call({}, scan),
    'inside of the request': () => call({ options: { pages: '0,2' } }, hidden(pdf)),
    'an image inside of the request': () => call({}, hidden(scan)),
    'with a schema': () =>
      call({
        annotatedBy: 'document_annotation_format',
        options: {
          document_annotation_format: { type: 'json_schema', json_schema },
          document_annotation_prompt: 'The title',
          confidence_scores_granularity: 'page',
          table_format: 'html',
        },
      }),
  },
  error: (status, message) => (_request, response) =>
    void response
      .writeHead(status, { 'content-type': 'application/json' })
      .end(JSON.stringify({ object: 'error', message, type: 'error', param: null, code: '3310' })),
})

const emulator = use(test, startMistralOcr)

test('the emulator takes, gives and refuses what Mistral’s own client does', async t => {
  const client = new Mistral({ apiKey: 'key', serverURL: emulator.url })
  const documentUrl = `data:application/pdf;base64,${bytes.toString('base64')}`
  const document = { type: 'document_url' as const, documentUrl }
  const { pages, usageInfo, documentAnnotation } = await client.ocr.process({
    model: 'mistral-ocr-latest',
    document,
    pages: '0,2',
    includeImageBase64: true,
    tableFormat: 'html',
    documentAnnotationFormat: {
      type: 'json_schema',
      jsonSchema: { name: 'report', schemaDefinition: json_schema.schema },
    },
  })
  t.deepEqual(
    pages.map(({ index }) => index),
    [0, 2],
  )
  t.is(usageInfo.pagesProcessed, 2)
  t.is(documentAnnotation, '{"title":"A report"}')
  const invalid = [
    { document: { type: 'document_url' as const, documentUrl: 'http://files.example/a.pdf' } },
    { document: { type: 'image_url' as const, imageUrl: documentUrl } },
    { documentAnnotationPrompt: 'The title' },
  ]
  for (const fields of invalid) {
    const refused = client.ocr.process({ model: 'mistral-ocr-latest', document, ...fields })
    await t.throwsAsync(refused, { instanceOf: HTTPValidationError })
  }
  await t.throwsAsync(client.ocr.process({ model: 'mistral-ocr-1', document }), { instanceOf: MistralError })
  const stranger = new Mistral({ apiKey: 'invalid', serverURL: emulator.url })
  await t.throwsAsync(stranger.ocr.process({ model: 'mistral-ocr-latest', document }), { instanceOf: MistralError })
})
