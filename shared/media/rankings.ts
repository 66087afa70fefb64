import type { ModerationOutput } from '../kinds/moderation.ts'
import { countRanked, promptUsage, type RerankOutput, type RerankRequest } from '../kinds/rerank.ts'
import { type Quantity, zeroQuantity } from '../kinds/sync-kind.ts'
import { type Delivery, type DeliveryResult, statedTokens } from './delivery.ts'
import { performWork } from './work.ts'

/** Assumed for a text in any language, where the provider does not say how many tokens it has counted. */
const bytesPerToken = 4

/**
 * Ranks documents and answers in the shape of Cohere and Jina, and in that of Voyage, whose clients read `data`, with documents as
 * texts, and `usage.total_tokens` (voyageai 0.5 of PyPI, object/reranking.py, and 0.4 of npm, api/types/RerankResponse). Throws a
 * ProviderError.
 */
export async function deliverRanking(
  delivery: Delivery<'rerank'>,
  { documents, return_documents }: RerankRequest,
): Promise<DeliveryResult> {
  const output = await performWork(delivery.work)
  delivery.onFirstByte()
  const quantity = quantityOf(delivery, output)
  const costNano = delivery.costNano(quantity)
  const { input, target } = delivery.work.call
  const { deployment, model } = target
  const isByTokens = deployment.price.unit === 'token'
  const billed = isByTokens ? { input_tokens: quantity.usage.prompt_tokens } : { search_units: quantity.pieces }
  const answer = {
    id: delivery.work.call.jobId,
    object: 'list',
    model: model.id,
    results: output.results.map(result => {
      const document = documents[result.index]!
      return return_documents
        ? { ...result, document: typeof document === 'string' ? { text: document } : document }
        : result
    }),
    data: output.results.map(result =>
      return_documents ? { ...result, document: input.documents[result.index]! } : result,
    ),
    meta: { api_version: { version: '2' }, billed_units: billed },
    usage: {
      ...(!isByTokens && { search_units: quantity.pieces }),
      prompt_tokens: quantity.usage.prompt_tokens,
      // @ai-sdk/togetherai demands it, though a ranking has no output.
      completion_tokens: 0,
      total_tokens: quantity.usage.total_tokens,
      cost: costNano / 1e9,
    },
  }
  return sendJson(delivery, quantity, costNano, answer)
}

/** Moderates texts and images and answers in OpenAI's shape. Throws a ProviderError. */
export async function deliverModeration(delivery: Delivery<'moderation'>): Promise<DeliveryResult> {
  const { model, results }: ModerationOutput = await performWork(delivery.work)
  delivery.onFirstByte()
  return sendJson(delivery, zeroQuantity, 0, { id: delivery.work.call.jobId, model, results })
}

function sendJson(
  { client, headers }: Delivery<'rerank'> | Delivery<'moderation'>,
  quantity: Quantity,
  costNano: number,
  answer: object,
): DeliveryResult {
  client.answer({ ...headers(costNano), 'content-type': 'application/json; charset=utf-8' }, JSON.stringify(answer))
  return { quantity, error: null }
}

/** What the provider counted; where it does not say or cannot be right, what the texts have. */
function quantityOf({ work }: Delivery<'rerank'>, { usage, searchUnits }: RerankOutput): Quantity {
  const { input, target } = work.call
  const most = countRanked(input, target.model, Buffer.byteLength)
  const usual = countRanked(input, target.model, text => Math.ceil(Buffer.byteLength(text) / bytesPerToken))
  const stated = statedTokens(usage)
  const isPlausible = searchUnits !== null && searchUnits <= most.searchUnits
  return {
    ...zeroQuantity,
    usage: stated && stated.prompt_tokens <= most.tokens ? stated : promptUsage(usual.tokens),
    pieces: isPlausible ? searchUnits : usual.searchUnits,
  }
}
