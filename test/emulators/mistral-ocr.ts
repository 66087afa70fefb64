import { pdfPagesIn } from '../support/media/documents.ts'
import { Emulator, json, type Recorded, type Reply } from './emulator.ts'

// biome-ignore lint/suspicious/noExplicitAny: request bodies of every shape, as they came over the wire
type Body = any

const models = ['mistral-ocr-4-0', 'mistral-ocr-latest', 'mistral-ocr-2512', 'mistral-ocr-2505']
const maxPages = 1_000

/** What Mistral says of a body that is not as its schema has it (client-ts#119, platform-docs-public#263). */
function invalid(loc: (string | number)[], msg: string, type = 'value_error'): Reply {
  return json(422, { detail: [{ type, loc: ['body', ...loc], msg, input: null }] })
}

function error(status: number, message: string, type: string, code: string): Reply {
  return json(status, { object: 'error', message, type, param: null, code })
}

const isFlag = (value: unknown) => typeof value === 'boolean'
const isCount = (value: unknown) => Number.isInteger(value) && (value as number) >= 0
const isOneOf =
  (...values: string[]) =>
  (value: unknown) =>
    values.includes(value as string)
const isFormat = (value: Body) =>
  value?.type === 'json_schema' &&
  typeof value.json_schema?.name === 'string' &&
  typeof value.json_schema.schema === 'object'
const isSelection = (value: Body) =>
  typeof value === 'string' ? /^\d+(-\d+)?(,\d+(-\d+)?)*$/.test(value) : Array.isArray(value) && value.every(isCount)

/** The fields of `OCRRequest` of `@mistralai/mistralai`, each of which may be null but flags with a default. */
const fields: Record<string, (value: Body) => boolean> = {
  model: value => typeof value === 'string',
  id: value => typeof value === 'string',
  document: value => typeof value === 'object',
  pages: isSelection,
  include_image_base64: isFlag,
  image_limit: isCount,
  image_min_size: isCount,
  bbox_annotation_format: isFormat,
  document_annotation_format: isFormat,
  document_annotation_prompt: value => typeof value === 'string',
  table_format: isOneOf('markdown', 'html'),
  extract_header: isFlag,
  extract_footer: isFlag,
  include_blocks: isFlag,
  confidence_scores_granularity: isOneOf('word', 'page', 'block'),
}

/** Mistral's `POST /v1/ocr` on a local port; the API key `invalid` is refused, and so is every field that it does not have. */
export function startMistralOcr(): Promise<Emulator> {
  return Emulator.start((request, response) => replyTo(request)(request, response))
}

function replyTo({ method, path, headers, body }: Recorded): Reply {
  const [, key] = /^Bearer (\S+)$/i.exec(headers.authorization ?? '') ?? []
  if (!key || key === 'invalid') return json(401, { detail: 'Unauthorized' })
  if (method !== 'POST' || path !== '/v1/ocr') return json(404, { detail: 'Not Found' })
  if (!body || typeof body !== 'object') return invalid([], 'Input should be a valid dictionary')
  for (const name of ['model', 'document'])
    if (body[name] === undefined) return invalid([name], 'Field required', 'missing')
  for (const [name, value] of Object.entries(body)) {
    if (!fields[name]) return invalid([name], 'Extra inputs are not permitted', 'extra_forbidden')
    if (value !== null && !fields[name](value)) return invalid([name], 'Input should be valid')
  }
  if (body.document_annotation_prompt && !body.document_annotation_format)
    return invalid([], 'Value error, document_annotation_format must be provided with document_annotation_prompt')
  if (!models.includes(body.model)) return error(400, `Invalid model: ${body.model}`, 'invalid_model', '1500')
  return replyFor(body)
}

function replyFor(body: Body): Reply {
  const { document } = body
  const url = urlOf(document)
  if (url === null)
    return invalid(['document', 'DocumentURLChunk', 'type'], 'Input should be a valid chunk', 'literal_error')
  const kind = document.type === 'image_url' ? 'image' : 'application'
  const [, data] = new RegExp(`^data:${kind}/[^;]+;base64,(.+)$`).exec(url) ?? []
  if (!data && !url.startsWith('https'))
    return invalid(
      [],
      `Value error, Document content must be a URL (starting with 'https') or base64 encoded document (starting with 'data:${kind}/<format>;base64,<document-base64>')`,
    )
  const bytes = Buffer.from(data ?? '', 'base64')
  if (data && kind === 'application' && !bytes.includes('%PDF-') && !/wordprocessingml/.test(url))
    return error(400, 'Document is not a valid PDF.', 'invalid_file', '3310')
  const isWord = /wordprocessingml/.test(url)
  if (isWord && !body.include_image_base64 && body.image_limit !== 0)
    return error(
      400,
      "For .docx files, extracted images can only be returned in base64. If you don't want images, try setting `image_limit=0` instead.",
      'invalid_file',
      '3310',
    )
  const pages = data && kind === 'application' && !isWord ? pdfPagesIn(bytes) : 1
  if (pages > maxPages)
    return error(
      400,
      `Document has too many pages: ${pages}. Max is ${maxPages}.`,
      'document_parser_too_many_pages',
      '3730',
    )
  return json(200, answer(body, isWord ? [0] : indexesOf(body.pages ?? null, pages), bytes.length || null))
}

function urlOf(document: Body): string | null {
  const { type = 'document_url', document_url, image_url, ...others } = document
  const stranger = Object.keys(others).find(name => name !== 'document_name')
  if (stranger) return null
  if (type === 'document_url') return typeof document_url === 'string' ? document_url : null
  return type === 'image_url' ? (image_url?.url ?? image_url ?? null) : null
}

function indexesOf(selection: string | number[] | null, pages: number): number[] {
  const all = Array.from({ length: pages }, (_, index) => index)
  if (selection === null) return all
  const parts = typeof selection === 'string' ? selection.split(',') : selection.map(String)
  const ranges = parts.map(part => part.split('-').map(Number))
  return all.filter(index => ranges.some(([first, last = first]) => index >= first! && index <= last!))
}

function answer(body: Body, indexes: number[], bytes: number | null) {
  const { document_annotation_format: whole, bbox_annotation_format: boxes } = body
  return {
    pages: indexes.map(index => ({
      index,
      markdown: `# Page ${index}`,
      images: boxes || body.include_image_base64 ? [imageOf(body, index)] : [],
      dimensions: { dpi: 200, height: 2339, width: 1654 },
      tables: [],
      hyperlinks: [],
      header: null,
      footer: null,
      ...(body.include_blocks && { blocks: [] }),
    })),
    model: body.model,
    document_annotation: whole ? '{"title":"A report"}' : null,
    usage_info: {
      pages_processed: indexes.length,
      doc_size_bytes: bytes,
      pages_processed_annotation: whole || boxes ? indexes.length : 0,
    },
  }
}

function imageOf({ include_image_base64: withContent, bbox_annotation_format: format }: Body, index: number) {
  return {
    id: `img-${index}.jpeg`,
    top_left_x: 1,
    top_left_y: 2,
    bottom_right_x: 3,
    bottom_right_y: 4,
    image_base64: withContent ? 'data:image/jpeg;base64,/9j/' : null,
    image_annotation: format ? '{"kind":"chart"}' : null,
  }
}
