import type { OcrInput, OcrOutput } from '../kinds/ocr.ts'
import { type Quantity, zeroQuantity } from '../kinds/sync-kind.ts'
import type { Delivery, DeliveryResult } from './delivery.ts'
import { performWork } from './work.ts'

/** Reads a document and answers in Mistral's shape. Throws a ProviderError. */
export async function deliverOcr(delivery: Delivery<'ocr'>): Promise<DeliveryResult> {
  const { client, headers, input, work } = delivery
  const output = await performWork(work)
  delivery.onFirstByte()
  const quantity = quantityOf(input, output)
  const costNano = delivery.costNano(quantity)
  const answer = {
    pages: output.pages,
    model: work.call.target.model.id,
    document_annotation: output.documentAnnotation,
    usage_info: {
      pages_processed: quantity.pieces,
      ...(input.annotatedBy && { pages_processed_annotation: quantity.annotatedPages }),
      doc_size_bytes: output.documentBytes,
      cost: costNano / 1e9,
    },
  }
  client.answer({ ...headers(costNano), 'content-type': 'application/json; charset=utf-8' }, JSON.stringify(answer))
  return { quantity, error: null }
}

/**
 * The pages that the provider counted, no more than were reserved for. Some count pages that they annotate in place of those
 * that they read; one that counts nothing has processed the pages of its answer.
 */
function quantityOf(
  { annotatedBy, maxPages }: OcrInput,
  { pages, pagesProcessed, annotatedPages }: OcrOutput,
): Quantity {
  const pieces = pagesProcessed ?? (annotatedPages === null ? pages.length : 0)
  return {
    ...zeroQuantity,
    pieces: Math.min(pieces, maxPages),
    annotatedPages: annotatedBy ? Math.min(annotatedPages ?? pieces, maxPages) : 0,
  }
}
