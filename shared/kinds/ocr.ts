import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import type { ModelRow } from '../catalog/schema.ts'
import { common, documentId, ofOpenRouter, type Reference, type ReferenceField, uploadId } from './media.ts'
import { type SyncKindRow, zeroQuantity } from './sync-kind.ts'

/** The size of a JSON body with a document inside. Larger ones are uploaded, or read from their URL. */
export const maxOcrBodyBytes = 32 * 1024 * 1024
/** Mistral's limit, of documents and of what is read of a larger one (docs.mistral.ai, document AI). */
const maxPages = 1_000
const maxListedPages = 10_000

const link = z.string().min(1).max(maxOcrBodyBytes)

const document = z.discriminatedUnion('type', [
  z.looseObject({
    type: z.literal('document_url'),
    document_url: link.describe('An https URL, a file’s URL or id, or a `data:` URI.'),
    document_name: z.string().max(500).nullish(),
  }),
  z.looseObject({
    type: z.literal('image_url'),
    image_url: z
      .union([link, z.looseObject({ url: link })])
      .describe('An https URL, a file’s URL or id, or a `data:` URI.'),
  }),
  z.looseObject({
    type: z.literal('file'),
    file_id: z
      .string()
      .max(200)
      .refine(id => documentId.test(id) || uploadId.test(id), 'must be the id of a file or an upload')
      .describe('The id of a file with the purpose `ocr`, or of an uploaded image.'),
  }),
])
const described = document.describe('A document or an image: by URL, inside of the request, or as a file.')

const pageNumber = /\s*(\d{1,7})\s*(?:-\s*(\d{1,7})\s*)?/
const pageList = new RegExp(`^${pageNumber.source}(?:,${pageNumber.source}){0,999}$`)

function isAscending(pages: string): boolean {
  return !pageList.test(pages) || rangesOf(pages).every(([first, last]) => first <= last)
}

/** What is read out of a document must have a schema: another form is refused by Mistral. */
const annotationFormat = z.looseObject({
  type: z.literal('json_schema', 'must be `json_schema`'),
  json_schema: z.looseObject({ name: z.string().min(1), schema: z.record(z.string(), z.unknown()) }),
})

/** The members that are sent to the provider as they are. */
const options = {
  pages: z
    .union([
      z.array(z.int().min(0)).min(1).max(maxListedPages),
      z
        .string()
        .max(maxListedPages)
        .regex(pageList, 'must be page numbers and ranges, such as `0-5,8`')
        .refine(isAscending, 'has a range that ends before it begins'),
    ])
    .nullish()
    .describe('The pages to read, from 0: a list, or numbers and ranges such as `0-5,8`. All without it.'),
  include_image_base64: z.boolean().nullish().describe('Whether images have their content.'),
  image_limit: z.int().min(0).nullish().describe('The most images to return.'),
  image_min_size: z.int().min(0).nullish().describe('The least height and width of images to return, in pixels.'),
  table_format: z.enum(['markdown', 'html']).nullish().describe('Returns tables apart from the text, in this form.'),
  extract_header: z.boolean().nullish().describe('Whether the header of a page is returned apart from its text.'),
  extract_footer: z.boolean().nullish().describe('Whether the footer of a page is returned apart from its text.'),
  include_blocks: z
    .boolean()
    .nullish()
    .describe('Whether paragraphs are returned with their places, if the model can.'),
  confidence_scores_granularity: z
    .enum(['word', 'page', 'block'])
    .nullish()
    .describe('Of what the model says how sure it is.'),
  bbox_annotation_format: annotationFormat.nullish().describe('A schema that each image is described by.'),
  document_annotation_format: annotationFormat.nullish().describe('A schema that the document is described by.'),
  document_annotation_prompt: z
    .string()
    .max(200_000)
    .nullish()
    .describe('What to look for; with `document_annotation_format`.'),
}
type Options = { [Name in keyof typeof options]?: z.infer<(typeof options)[Name]> }
type PageSelection = NonNullable<Options['pages']>

/** `POST /v1/ocr`, in Mistral's shape (`OCRRequest` of `@mistralai/mistralai`). */
export const ocrRequest = z
  .looseObject({ ...ofOpenRouter, model: common.model, document: described, ...options })
  .meta({ id: 'CreateOcrRequest' })
type OcrRequest = z.infer<typeof ocrRequest>

/** The fields of a request that are read; others are named as dropped. */
export const ocrFields: ReadonlySet<string> = new Set(Object.keys(ocrRequest.shape))

/** Adapter input: the document is the source of `field`. */
export type OcrInput = {
  field: string
  documentName: string | null
  /** As in the request, without nulls. */
  options: Options
  /** The field that asks for annotations, which are priced; null = none does. */
  annotatedBy: keyof Options | null
  /** The pages of the document; null = they cannot be counted. */
  pages: number | null
  /** The most pages that can be read. */
  maxPages: number
}

/** A page as the provider returns it: Mistral's `OCRPageObject`, which is passed on. */
export type OcrPage = { index: number; markdown: string } & Record<string, unknown>
/** What was read, and the pages that the provider counted; null where it does not say. */
export type OcrOutput = {
  pages: OcrPage[]
  documentAnnotation: string | null
  pagesProcessed: number | null
  annotatedPages: number | null
  documentBytes: number | null
}

export const ocr: SyncKindRow<OcrRequest, OcrInput> = {
  idPrefix: 'ocr',
  path: '/v1/ocr',
  modelsPath: '/v1/models',
  type: 'ocr',
  request: ocrRequest,
  references: ({ document }) => [referenceOf(document)],
  input(body, model, references) {
    const { field } = referenceOf(body.document)
    if (body.document_annotation_prompt != null && body.document_annotation_format == null) {
      const message = '`document_annotation_prompt` needs a `document_annotation_format`.'
      throw new GatewayError('invalid_request', message, { param: 'document_annotation_format' })
    }
    const reference = references?.[field] ?? null
    const given = Object.keys(options).filter(name => body[name] != null)
    return {
      field,
      documentName: body.document.type === 'document_url' ? (body.document.document_name ?? null) : null,
      options: Object.fromEntries(given.map(name => [name, withoutSpaces(name, body[name])])),
      annotatedBy: annotationFields.find(name => body[name] != null) ?? null,
      pages: reference && countedPages(reference),
      maxPages: mostPages(reference, body.pages ?? null, model),
    }
  },
  maxQuantity: ({ maxPages, annotatedBy }) => ({
    ...zeroQuantity,
    pieces: maxPages,
    annotatedPages: annotatedBy ? maxPages : 0,
  }),
}

/** A selection as Mistral documents it. */
function withoutSpaces(name: string, value: unknown): unknown {
  return name === 'pages' && typeof value === 'string' ? value.replaceAll(/\s/g, '') : value
}

const annotationFields = ['document_annotation_format', 'bbox_annotation_format'] as const

function referenceOf(document: OcrRequest['document']): ReferenceField {
  const reference = (name: string, url: string): ReferenceField => ({
    field: `document.${name}`,
    url,
    type: 'document',
    measured: true,
  })
  if (document.type === 'file') return reference('file_id', document.file_id)
  if (document.type === 'document_url') return reference('document_url', document.document_url)
  const { image_url: image } = document
  return reference('image_url', typeof image === 'string' ? image : image.url)
}

const pdfType = 'application/pdf'
/** Formats that hold one picture. */
const singleImages: ReadonlySet<string> = new Set(['image/jpeg', 'image/png', 'image/webp', 'image/bmp', 'image/avif'])

function countedPages({ contentType, pages }: Reference): number | null {
  return singleImages.has(contentType) ? 1 : (pages ?? null)
}

/**
 * The most pages that can be read. A selection does not bound other documents than PDFs: Mistral reads those of Word whole
 * (mistralai/client-python#287).
 */
function mostPages(reference: Reference | null, selection: PageSelection | null, { kind }: ModelRow): number {
  const limit = kind?.max_pages ?? maxPages
  if (!reference) return limit
  const selected = selection !== null && reference.contentType === pdfType ? countSelected(selection) : limit
  return Math.min(limit, selected, countedPages(reference) ?? limit)
}

/** The first and last number of each part of a selection. */
function rangesOf(selection: PageSelection): [first: number, last: number][] {
  if (typeof selection !== 'string') return [...new Set(selection)].map(page => [page, page])
  return selection.split(',').map(part => {
    const [, first, last = first] = pageNumber.exec(part)!
    return [Number(first), Number(last)]
  })
}

function countSelected(selection: PageSelection): number {
  return rangesOf(selection).reduce((sum, [first, last]) => sum + last - first + 1, 0)
}

/** The numbers of the pages of a document that are selected, in order. */
export function selectedPages(selection: PageSelection | null, pages: number): number[] {
  const selected = new Set<number>()
  for (const [first, last] of selection === null ? [[0, pages - 1] as const] : rangesOf(selection))
    for (let page = first; page <= Math.min(last, pages - 1); page++) selected.add(page)
  return [...selected].sort((a, b) => a - b)
}
