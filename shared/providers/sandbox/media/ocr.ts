import { type OcrOutput, type OcrPage, selectedPages } from '../../../kinds/ocr.ts'
import type { SyncCall } from '../../contract.ts'
import { fakeInstance } from '../chat/schema-faker.ts'

const width = 1_654
const height = 2_339
const dpi = 200
/** A file may state any number of pages. */
const maxCounted = 10_000
/** A grey pixel. */
const pixel =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=='

/** The selected pages of a document, with a text that names each; of a document whose pages cannot be counted, one. */
export async function readDocument({ input, sources }: SyncCall<'ocr'>): Promise<OcrOutput> {
  const { options, pages, maxPages, annotatedBy, documentName } = input
  const source = sources.get(input.field)
  const name = documentName ?? source?.filename ?? 'the document'
  const selected = selectedPages(options.pages ?? null, Math.min(pages ?? 1, maxCounted)).slice(0, maxPages)
  const read = selected.map(index => ({
    index,
    markdown: `# Page ${index + 1}\n\nThe text of page ${index + 1} of ${name}, as the sandbox reads it.`,
    images: imagesOf(input, index),
    dimensions: { dpi, height, width },
    ...(options.table_format && { tables: [] }),
    hyperlinks: [],
    header: null,
    footer: null,
  }))
  const schema = options.document_annotation_format?.json_schema.schema
  return {
    pages: read,
    documentAnnotation: schema ? JSON.stringify(fakeInstance(schema)) : null,
    pagesProcessed: read.length,
    annotatedPages: annotatedBy ? read.length : null,
    documentBytes: source?.bytes ?? null,
  }
}

/** An image on each page, where the request is about images. */
function imagesOf({ options }: SyncCall<'ocr'>['input'], index: number): OcrPage[string] {
  const { include_image_base64: withContent, bbox_annotation_format: format, image_limit: limit } = options
  if ((!withContent && !format) || index >= (limit ?? Number.POSITIVE_INFINITY)) return []
  return [
    {
      id: `img-${index}.png`,
      top_left_x: 100,
      top_left_y: 100,
      bottom_right_x: 400,
      bottom_right_y: 300,
      image_base64: withContent ? pixel : null,
      image_annotation: format ? JSON.stringify(fakeInstance(format.json_schema.schema)) : null,
    },
  ]
}
