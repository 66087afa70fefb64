import { Badge, Stack, Table, Text } from '@mantine/core'
import type { RequestDetail, RoutingCandidate } from '../../../wire/requests.ts'
import { Section } from '../../components/facts.tsx'
import { duration, usd } from '../../format.ts'

/** Why the request went where it went. */
export function Routing({ request }: { request: RequestDetail }) {
  const { routing, model } = request
  return (
    <Section title="Routing decision">
      {routing ? (
        <Stack gap="sm">
          <Text size="sm">{routing.reason}</Text>
          <Candidates candidates={routing.candidates} request={request} />
        </Stack>
      ) : (
        <Text size="sm" c="dimmed">
          The request named its model, {model}: there was nothing to choose but among its providers.
        </Text>
      )}
    </Section>
  )
}

function Candidates({ candidates, request }: { candidates: RoutingCandidate[]; request: RequestDetail }) {
  return (
    <Table.ScrollContainer minWidth={760}>
      <Table aria-label="Candidates of the routing decision, the first ones in the order of trial">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Candidate</Table.Th>
            <Table.Th ta="right">Score</Table.Th>
            <Table.Th ta="right">Quality</Table.Th>
            <Table.Th ta="right">Estimated cost</Table.Th>
            <Table.Th ta="right">First byte</Table.Th>
            <Table.Th>Outcome</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {candidates.map(candidate => (
            <Table.Tr key={`${candidate.model}@${candidate.provider}`}>
              <Table.Td>
                <Text size="sm">{candidate.model}</Text>
                <Text size="xs" c="dimmed">
                  {candidate.provider ?? 'no provider'}
                </Text>
              </Table.Td>
              <Table.Td ta="right" className="numeric">
                {candidate.score === null ? '–' : candidate.score.toFixed(3)}
              </Table.Td>
              <Table.Td ta="right" className="numeric">
                {candidate.quality ?? '–'}
              </Table.Td>
              <Table.Td ta="right" className="numeric">
                {candidate.estimated_cost_usd === null ? '–' : usd(candidate.estimated_cost_usd)}
              </Table.Td>
              <Table.Td ta="right" className="numeric">
                {candidate.latency_ms === null ? 'unknown' : duration(candidate.latency_ms)}
              </Table.Td>
              <Table.Td>
                <CandidateOutcome candidate={candidate} request={request} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  )
}

function CandidateOutcome({ candidate, request }: { candidate: RoutingCandidate; request: RequestDetail }) {
  const { model, provider, excluded } = candidate
  const isSame = (other: { model: string; provider: string | null }) =>
    other.model === model && other.provider === provider
  if (request.status < 400 && isSame(request)) return <Badge color="green">answered</Badge>
  if (request.calls.some(isSame)) return <Badge color="red">failed</Badge>
  return (
    <Text size="xs" c="dimmed">
      {excluded ? `Left out: ${excluded}` : 'not needed'}
    </Text>
  )
}
