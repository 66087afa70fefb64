import { Badge, Stack, Text } from '@mantine/core'
import type { RequestDetail, RoutingCandidate } from '../../../wire/requests.ts'
import { Section } from '../../components/facts.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { duration, exactUsd } from '../../format.ts'

/** The routing decision of a request. */
export function Routing({ request }: { request: RequestDetail }) {
  const { routing, model } = request
  return (
    <Section title="Routing decision">
      {routing ? (
        <Stack gap="sm">
          {sentencesOf(request).map(sentence => (
            <Text key={sentence} size="sm">
              {sentence}
            </Text>
          ))}
          <DataTable
            label="Candidates of the routing decision; the first ones in the order in which they are tried"
            rows={routing.candidates}
            columns={columns(request)}
            rowKey={({ model: name, provider }) => `${name}@${provider}`}
            minWidth={760}
          />
        </Stack>
      ) : (
        <Text size="sm" c="dimmed">
          The request named its model, {model}, so only the provider was selected by routing.
        </Text>
      )}
    </Section>
  )
}

/** The decision in words: why the order is what it is, and who of it answered. */
function sentencesOf(request: RequestDetail): string[] {
  const { reason, candidates } = request.routing!
  const eligible = candidates.filter(({ excluded }) => excluded === null)
  const [first] = eligible
  const sentences = [reason]
  if (!first) return sentences
  const outcome = outcomeOf(request, first)
  if (outcome !== null)
    sentences.push(`${first.model} at ${first.provider ?? 'no provider'} was first in the order. ${outcome}`)
  const isBest = eligible.every(({ score }) => (score ?? -Infinity) <= (first.score ?? -Infinity))
  if (!isBest)
    sentences.push(
      'Another candidate has a higher score: the order also keeps conversations with their model and sets providers aside that are failing.',
    )
  const excluded = candidates.length - eligible.length
  if (excluded > 0) sentences.push(`${excluded} of the candidates below ${excluded === 1 ? 'was' : 'were'} excluded.`)
  return sentences
}

/** The outcome of the highest-ranked candidate; null if no provider was called. */
function outcomeOf({ model, provider, status, calls }: RequestDetail, first: RoutingCandidate): string | null {
  if (calls.length === 0) return null
  if (status >= 400) return calls.length === 1 ? 'The call to it failed.' : `All ${calls.length} calls failed.`
  if (first.model === model && first.provider === provider) return 'It answered, so the others were not needed.'
  return `It failed or was busy, and ${model} at ${provider} answered.`
}

const columns = (request: RequestDetail): Column<RoutingCandidate>[] => [
  {
    header: 'Candidate',
    card: 'lead',
    kind: 'rowHeader',
    cell: ({ model, provider }) => (
      <>
        <Text size="sm">{model}</Text>
        <Text size="xs" c="dimmed">
          {provider ?? 'no provider'}
        </Text>
      </>
    ),
  },
  { header: 'Score', card: 'labelled', kind: 'number', cell: ({ score }) => (score === null ? '–' : score.toFixed(3)) },
  {
    header: 'Quality',
    card: 'labelled',
    kind: 'number',
    cell: ({ quality, learned }) => withLearned(quality, learned),
  },
  {
    header: 'Estimated cost',
    card: 'labelled',
    kind: 'number',
    cell: ({ estimated_cost_usd: cost }) => (cost === null ? '–' : exactUsd(cost)),
  },
  {
    header: 'TTFT',
    card: 'labelled',
    kind: 'number',
    cell: ({ latency_ms: ms }) => (ms === null ? 'no data yet' : duration(ms)),
  },
  { header: 'Outcome', card: 'aside', cell: candidate => <CandidateOutcome candidate={candidate} request={request} /> },
]

/** A quality with what feedback added to it: "84 + 1.2". */
function withLearned(quality: number | null, learned: number): string {
  if (quality === null) return '–'
  return learned === 0 ? String(quality) : `${quality} ${learned < 0 ? '−' : '+'} ${Math.abs(learned).toFixed(1)}`
}

function CandidateOutcome({ candidate, request }: { candidate: RoutingCandidate; request: RequestDetail }) {
  const { model, provider, excluded } = candidate
  const isSame = (other: { model: string; provider: string | null }) =>
    other.model === model && other.provider === provider
  if (request.status < 400 && isSame(request)) return <Badge color="green">answered</Badge>
  if (request.calls.some(isSame)) return <Badge color="red">failed</Badge>
  return (
    <Text size="xs" c="dimmed">
      {excluded ? `Excluded: ${excluded}` : 'Not tried'}
    </Text>
  )
}
