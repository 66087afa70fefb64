import { Mistral } from '@mistralai/mistralai'
import { json } from '../emulators/emulator.ts'
import { startMistralOcr } from '../emulators/mistral-ocr.ts'
import { chargedNano } from '../support/chat/gateway.ts'
import { pdfOfPages } from '../support/media/documents.ts'
import { png } from '../support/media/png.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const mistral = use(test, startMistralOcr)
const gateway = useGateway(test, () => ({ MISTRAL_API_KEY: 'mi-secret', MISTRAL_BASE_URL: `${mistral.url}/v1` }))
test.beforeEach(() => mistral.reset())

const pdfUrl = (pages: number) => `data:application/pdf;base64,${pdfOfPages(pages).toString('base64')}`
const documentOf = (pages: number) => ({ type: 'document_url', document_url: pdfUrl(pages) })
const format = {
  type: 'json_schema',
  json_schema: {
    name: 'report',
    schema: { type: 'object', properties: { title: { type: 'string' } }, required: ['title'] },
  },
}

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape
type Read = { status: number; headers: Headers; json: any }

async function read(key: string, body: object): Promise<Read> {
  const response = await gateway.fetch('/v1/ocr', { key, body: { document: documentOf(2), ...body } })
  return { status: response.status, headers: response.headers, json: await response.json() }
}

test.serial('200 for Mistral’s own client, billed by the page', async t => {
  const account = await gateway.account()
  const client = new Mistral({ apiKey: account.live, serverURL: gateway.url })
  const { pages, model, usageInfo } = await client.ocr.process({
    model: 'mistral-ocr-latest',
    document: { type: 'document_url', documentUrl: pdfUrl(3), documentName: 'report.pdf' },
    pages: [0, 2],
    includeImageBase64: true,
  })
  t.deepEqual(
    pages.map(({ index, markdown }) => [index, markdown]),
    [
      [0, '# Page 0'],
      [2, '# Page 2'],
    ],
  )
  t.is(pages[0]!.images[0]!.imageBase64, 'data:image/jpeg;base64,/9j/')
  t.is(model, 'mistral-ocr-4-0')
  t.is(usageInfo.pagesProcessed, 2)
  const [sent] = mistral.requests
  t.like(sent!.body, { model: 'mistral-ocr-4-0', pages: [0, 2], document: { document_name: 'report.pdf' } })
  t.is(sent!.body.document.document_url, pdfUrl(3))
  t.is(await chargedNano({ gateway }, account), 8_400_000)
})

test.serial('200 for an image, by its URL, inside of the request and uploaded', async t => {
  const { live } = await gateway.account()
  const image = `data:image/png;base64,${png(4).toString('base64')}`
  for (const image_url of [image, { url: image }]) {
    const { status, json: answer } = await read(live, { document: { type: 'image_url', image_url } })
    t.is(status, 200, JSON.stringify(answer))
    t.deepEqual(mistral.requests.at(-1)!.body.document, { type: 'image_url', image_url: image })
  }
  const form = new FormData()
  form.append('file', new Blob([new Uint8Array(png(4))]), 'scan.png')
  const headers = { authorization: `Bearer ${live}` }
  const upload = await fetch(`${gateway.url}/v1/uploads`, { method: 'POST', headers, body: form })
  const { id } = (await upload.json()) as { id: string }
  t.is((await read(live, { document: { type: 'file', file_id: id } })).status, 200)
  t.deepEqual(mistral.requests.at(-1)!.body.document, { type: 'image_url', image_url: image })
})

test.serial('200 for a document that Mistral’s client has uploaded, by its id and by its URL', async t => {
  const account = await gateway.account()
  const client = new Mistral({ apiKey: account.live, serverURL: gateway.url })
  const content = new Uint8Array(pdfOfPages(2))
  const uploaded = await client.files.upload({ file: { fileName: 'report.pdf', content }, purpose: 'ocr', expiry: 2 })
  t.is(uploaded.expiresAt! - uploaded.createdAt, 7_200)
  t.like(uploaded, { filename: 'report.pdf', purpose: 'ocr', mimetype: 'application/pdf', sizeBytes: content.length })
  t.like(await client.files.retrieve({ fileId: uploaded.id }), { id: uploaded.id, deleted: false, source: 'upload' })
  const { url } = await client.files.getSignedUrl({ fileId: uploaded.id, expiry: 1 })
  for (const document of [
    { type: 'file' as const, fileId: uploaded.id },
    { type: 'document_url' as const, documentUrl: url },
  ]) {
    const { usageInfo } = await client.ocr.process({ model: 'mistral-ocr-latest', document })
    t.is(usageInfo.pagesProcessed, 2)
    t.like(mistral.requests.at(-1)!.body.document, { type: 'document_url', document_url: pdfUrl(2) })
  }
  const stored = await gateway.fetch(`/v1/files/${uploaded.id}/content`, { key: account.live })
  t.is(stored.headers.get('content-type'), 'application/pdf')
  const strangers = [(await gateway.account()).live, account.test]
  for (const key of strangers) {
    const { status, json: answer } = await read(key, { document: { type: 'file', file_id: uploaded.id } })
    t.is(status, 400)
    t.is(answer.error.param, 'document.file_id')
  }
})

test.serial('200 with annotations, whose pages are billed as the provider counts them', async t => {
  const account = await gateway.account()
  const body = { model: 'mistral-ocr-2512', document_annotation_format: format, document_annotation_prompt: 'Title' }
  const { status, headers, json: answer } = await read(account.live, { ...body, colour: 'red' })
  t.is(status, 200, JSON.stringify(answer))
  t.is(headers.get('x-gateway-dropped'), 'colour')
  t.is(answer.document_annotation, '{"title":"A report"}')
  t.like(answer.usage_info, { pages_processed: 2, pages_processed_annotation: 2 })
  t.is(await chargedNano({ gateway }, account), 2 * (2_000_000 + 3_000_000) * 1.05)
  t.is(headers.get('x-gateway-cost-usd'), '0.0105')
})

test.serial('200 for a provider that counts annotated pages alone, or more pages than there are', async t => {
  const account = await gateway.account()
  const page = { index: 0, markdown: 'Hello' }
  const usages = [
    { pages_processed: 0, pages_processed_annotation: 2 },
    { pages_processed: 1e6, pages_processed_annotation: 1e6 },
    {},
  ]
  const costs: number[] = []
  for (const usage_info of usages) {
    mistral.next(json(200, { pages: [page], model: 'mistral-ocr-2512', usage_info }))
    const { json: answer } = await read(account.live, { model: 'mistral-ocr-2512', document_annotation_format: format })
    costs.push(answer.usage_info.cost)
  }
  t.deepEqual(costs, [0.0063, 0.0105, 0.00525])
})

test.serial('402 when the pages cost more than there is; a selection makes them affordable', async t => {
  const account = await gateway.account({ usd: '0.05' })
  const { status, json: answer } = await read(account.live, { document: documentOf(12) })
  t.is(status, 402, JSON.stringify(answer))
  t.is((await read(account.live, { document: documentOf(12), pages: '0-8' })).status, 200)
  t.is(mistral.requests.length, 1)
})

test.serial('400 naming the field for what cannot be read, and nothing is sent', async t => {
  const { live } = await gateway.account()
  const broken = `data:application/pdf;base64,${Buffer.from('hello').toString('base64')}`
  const cases: [body: object, param: string, status?: number][] = [
    [{ document: { type: 'base64_document', base64_document: 'x' } }, 'document.type'],
    [{ document: { type: 'document_url' } }, 'document.document_url'],
    [{ document: { type: 'file', file_id: 'file 1' } }, 'document.file_id'],
    [{ document: { type: 'file', file_id: 'file-1' } }, 'document.file_id'],
    [{ document: { type: 'file', file_id: 'upl_nobody' } }, 'document.file_id'],
    [{ document: { type: 'document_url', document_url: 'http://127.0.0.1/a.pdf' } }, 'document.document_url'],
    [{ document: { type: 'document_url', document_url: broken } }, 'document.document_url', 415],
    [{ pages: '3-1' }, 'pages'],
    [{ pages: [-1] }, 'pages.0'],
    [{ pages: 'all' }, 'pages'],
    [{ document_annotation_format: { type: 'json_object' } }, 'document_annotation_format.type'],
    [{ document_annotation_prompt: 'The title' }, 'document_annotation_format'],
    [{ table_format: 'latex' }, 'table_format'],
  ]
  for (const [body, param, expected = 400] of cases) {
    const { status, json: answer } = await read(live, body)
    t.is(status, expected, JSON.stringify([body, answer]).slice(0, 300))
    t.is(answer.error.param, param)
  }
  t.is((await read(live, { model: 'gpt-4.1' })).status, 404)
  t.is(mistral.requests.length, 0)
})

test.serial(
  '400 with the provider’s words for what it refuses, 502 for an answer without pages; both are free',
  async t => {
    const account = await gateway.account()
    const refusal = {
      object: 'error',
      message: 'The document is encrypted.',
      type: 'invalid_file',
      param: null,
      code: '1',
    }
    mistral.next(json(400, refusal))
    const refused = await read(account.live, {})
    t.is(refused.status, 400)
    t.regex(refused.json.error.message, /encrypted/)
    mistral.next(json(200, { pages: [{ index: 0 }], usage_info: { pages_processed: 1 } }))
    t.is((await read(account.live, { model: 'mistral-ocr-2512' })).status, 502)
    t.is(await chargedNano({ gateway }, account), 0)
  },
)

test.serial('200 with a test key: read by the sandbox, nothing sent or charged; logged like live ones', async t => {
  const account = await gateway.account()
  const { status, json: answer } = await read(account.test, {
    document: documentOf(4),
    pages: '1-2',
    include_image_base64: true,
    document_annotation_format: format,
  })
  t.is(status, 200, JSON.stringify(answer))
  t.deepEqual(
    answer.pages.map(({ index }: { index: number }) => index),
    [1, 2],
  )
  t.is(typeof JSON.parse(answer.document_annotation).title, 'string')
  t.is(answer.usage_info.cost, 0)
  t.is(mistral.requests.length, 0)
  t.is(await chargedNano({ gateway }, account), 0)
  const rows = await gateway.services.db.generation.findMany({ where: { organisationId: account.organisationId } })
  t.deepEqual(
    rows.map(({ kind }) => kind),
    ['ocr'],
  )
})

test.serial('200 for the list of models, with the price of a page', async t => {
  const { live } = await gateway.account()
  const response = await gateway.fetch('/v1/models/mistral-ocr-latest', { key: live })
  // biome-ignore lint/suspicious/noExplicitAny: the list is tested elsewhere
  const model: any = await response.json()
  t.is(model.id, 'mistral-ocr-4-0')
  t.like(model.pricing, { per_page: '0.0042', per_page_annotated: '0.00525' })
})
