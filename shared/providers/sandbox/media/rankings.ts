import type { ModerationOutput } from '../../../kinds/moderation.ts'
import { promptUsage, type RerankOutput } from '../../../kinds/rerank.ts'
import { tokenizer } from '../../../kinds/tokenizer.ts'
import type { SyncCall } from '../../contract.ts'

/** A ranking by the words that each document shares with the query. */
export async function ranking({ input, target }: SyncCall<'rerank'>): Promise<RerankOutput> {
  const { query, documents, maxResults } = input
  const asked = wordsOf(query)
  const results = documents.map((text, index) => {
    const words = wordsOf(text)
    const shared = [...asked].filter(word => words.has(word)).length
    return { index, relevance_score: shared / Math.max(1, asked.size) }
  })
  results.sort((a, b) => b.relevance_score - a.relevance_score)
  const counter = await tokenizer()
  const tokens = documents.reduce((sum, text) => sum + counter.count(text) + counter.count(query), 0)
  const isByTokens = target.deployment.price.unit === 'token'
  return {
    results: results.slice(0, maxResults ?? results.length),
    usage: isByTokens ? promptUsage(tokens) : null,
    searchUnits: null,
  }
}

const wordsOf = (text: string) => new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu))

/** Those that answers of OpenAI have (openai 7, `Moderation.Categories`). */
const categories = [
  'harassment',
  'harassment/threatening',
  'hate',
  'hate/threatening',
  'illicit',
  'illicit/violent',
  'self-harm',
  'self-harm/instructions',
  'self-harm/intent',
  'sexual',
  'sexual/minors',
  'violence',
  'violence/graphic',
]

/** Flags each text that has the name of a category as a word. */
export async function moderate({ input: { input }, target }: SyncCall<'moderation'>): Promise<ModerationOutput> {
  const texts = typeof input === 'string' ? [input] : input.map(one => (typeof one === 'string' ? one : null))
  // Parts are one input.
  const inputs = texts.includes(null) ? [partsText(input)] : (texts as string[])
  return {
    model: target.model.id,
    results: inputs.map(text => {
      const words = text.toLowerCase()
      const found = categories.filter(name => words.includes(name))
      return {
        flagged: found.length > 0,
        categories: Object.fromEntries(categories.map(name => [name, found.includes(name)])),
        category_scores: Object.fromEntries(categories.map(name => [name, found.includes(name) ? 0.99 : 0.001])),
        category_applied_input_types: Object.fromEntries(
          categories.map(name => [name, found.includes(name) ? ['text'] : []]),
        ),
      }
    }),
  }
}

function partsText(input: SyncCall<'moderation'>['input']['input']): string {
  if (typeof input === 'string') return input
  return input.map(one => (typeof one === 'object' && one.type === 'text' ? one.text : '')).join('\n')
}
