import { Badge, Stack, Text } from '@mantine/core'
import type { RequestDetail, RoutingCandidate } from '../../../wire/requests.ts'
import { Section } from '../../components/facts.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { duration, usd } from '../../format.ts'

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

/** The decision in words: what was chosen and why, and why what answered is another one. */
function sentencesOf(request: RequestDetail): string[] {
  const { routing, model, provider, status, calls } = request
  const { reason, candidates } = routing!
  const eligible = candidates.filter(({ excluded }) => excluded === null)
  const [first] = eligible
  const sentences = [reason]
  if (!first) return sentences
  const chosen = `${first.model} at ${first.provider ?? 'no provider'}`
  const isFirst = first.model === model && first.provider === provider
  if (isFirst && status < 400)
    sentences.push(
      `${chosen} was first in the order and answered, so the other ${eligible.length - 1} eligible candidates were not tried.`,
    )
  else if (calls.length > 0 && status < 400)
    sentences.push(
      `${chosen} was first in the order. ${model} at ${provider} answered after ${calls.length - 1} other calls.`,
    )
  else if (calls.length > 0)
    sentences.push(`${chosen} was first in the order. None of the ${calls.length} calls succeeded.`)
  const isBest = eligible.every(({ score }) => (score ?? -Infinity) <= (first.score ?? -Infinity))
  if (!isBest)
    sentences.push(
      'Another candidate has a higher score: the order also keeps conversations with their model and sets providers aside that are failing.',
    )
  const excluded = candidates.length - eligible.length
  if (excluded > 0)
    sentences.push(
      `${excluded} ${excluded === 1 ? 'candidate was' : 'candidates were'} excluded, for the reasons in the table.`,
    )
  return sentences
}

const columns = (request: RequestDetail): Column<RoutingCandidate>[] => [
  {
    header: 'Candidate',
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
  { header: 'Score', kind: 'number', cell: ({ score }) => (score === null ? '–' : score.toFixed(3)) },
  { header: 'Quality', kind: 'number', cell: ({ quality, learned }) => withLearned(quality, learned) },
  {
    header: 'Estimated cost',
    kind: 'number',
    cell: ({ estimated_cost_usd: cost }) => (cost === null ? '–' : usd(cost)),
  },
  { header: 'First byte', kind: 'number', cell: ({ latency_ms: ms }) => (ms === null ? 'no data yet' : duration(ms)) },
  { header: 'Outcome', cell: candidate => <CandidateOutcome candidate={candidate} request={request} /> },
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
