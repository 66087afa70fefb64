import { CohereClient, CohereClientV2, CohereError } from 'cohere-ai'
import { VoyageAIClient } from 'voyageai'
import { cohere } from '../../../shared/providers/adapters/cohere/protocol.ts'
import { openai } from '../../../shared/providers/adapters/openai/protocol.ts'
import { rerankForms, startRankings } from '../../emulators/rankings.ts'
import { conforms, syncCallOf } from '../../support/media/adapter.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const input = {
  query: 'When does it open?',
  documents: ['Cats sleep.', 'It does open at nine.', 'When?'],
  maxResults: null,
  maxTokensPerDocument: null,
  truncates: null,
}
const subjects = [
  { provider: 'cohere', protocol: cohere, model: 'rerank-v3.5' },
  { provider: 'voyage', protocol: openai, model: 'rerank-2.5' },
  { provider: 'jina', protocol: openai, model: 'jina-reranker-v2-base-multilingual' },
] as const

for (const { provider, protocol, model } of subjects)
  conforms(test, {
    name: `rankings of ${provider}`,
    provider,
    protocol,
    kind: 'rerank',
    start: () => startRankings(rerankForms[provider]),
    call: () => syncCallOf<'rerank'>(provider, model, input, {}),
    others: {
      'the best only': () => syncCallOf<'rerank'>(provider, model, { ...input, maxResults: 1 }, {}),
      'with what its model can do': () =>
        syncCallOf<'rerank'>(provider, model, { ...input, maxTokensPerDocument: 100, truncates: false }, {}),
    },
  })

const emulators = {
  cohere: use(test, () => startRankings(rerankForms.cohere)),
  voyage: use(test, () => startRankings(rerankForms.voyage)),
}
const { query } = input
const documents = [...input.documents]

test('the emulators take and give what Cohere’s and Voyage’s own clients do', async t => {
  const cohereClient = new CohereClientV2({ token: 'token', environment: emulators.cohere.url })
  const ranked = await cohereClient.rerank({ model: 'rerank-v3.5', query, documents, topN: 2 })
  t.deepEqual(
    ranked.results.map(({ index }) => index),
    [1, 2],
  )
  t.is(ranked.meta?.billedUnits?.searchUnits, 1)
  const refused = new CohereClientV2({ token: 'invalid', environment: emulators.cohere.url })
  await t.throwsAsync(refused.rerank({ model: 'rerank-v3.5', query, documents }), { instanceOf: CohereError })
  const voyageClient = new VoyageAIClient({ apiKey: 'key', environment: `${emulators.voyage.url}/v1` })
  const voyaged = await voyageClient.rerank({ model: 'rerank-2.5', query, documents, topK: 1 })
  t.deepEqual(
    voyaged.data?.map(({ index }) => index),
    [1],
  )
  t.true(voyaged.usage!.totalTokens! > 0)
  t.truthy(CohereClient)
})
