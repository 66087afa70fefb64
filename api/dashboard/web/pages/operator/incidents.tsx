import { Anchor, Badge, Text } from '@mantine/core'
import { Link } from 'wouter'
import type { Incident } from '../../../wire/operator-home.ts'
import { Section } from '../../components/facts.tsx'
import { Empty } from '../../components/states.tsx'
import { type Column, PagedTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { duration } from '../../format.ts'
import { useIncidents } from './home-queries.ts'

/** What went wrong, of the service or of one provider: what lasts comes first. */
export function Incidents({ provider }: { provider?: string }) {
  const incidents = useIncidents(provider)
  return (
    <Section title="Incidents" id="incidents">
      <PagedTable
        label="Incidents"
        query={incidents}
        columns={provider === undefined ? columns : columns.filter(({ header }) => header !== 'Provider')}
        rowKey={({ id }) => id}
        minWidth={640}
        loadingRows={3}
        empty={
          <Empty title="No incidents">
            Outages, refused API keys, lost processes and failing webhooks appear here.
          </Empty>
        }
      />
    </Section>
  )
}

/** How long an incident lasted, or that it lasts. */
export function Lasted({
  incident: { opened_at, closed_at },
}: {
  incident: Pick<Incident, 'opened_at' | 'closed_at'>
}) {
  if (closed_at === null) return <Badge color="red">ongoing</Badge>
  return duration(Math.max(0, Date.parse(closed_at) - Date.parse(opened_at)))
}

const columns: Column<Incident>[] = [
  {
    header: 'Incident',
    card: 'lead',
    kind: 'rowHeader',
    maxWidth: 460,
    cell: ({ id, title, message }) => (
      <>
        <Anchor component={Link} href={`/operator/incidents/${id}`} size="sm" fw={500}>
          {title}
        </Anchor>
        {message !== null && (
          <Text size="xs" c="dimmed" lineClamp={2}>
            {message}
          </Text>
        )}
      </>
    ),
  },
  {
    header: 'Provider',
    card: 'line',
    cell: ({ provider }) =>
      provider === null ? (
        '–'
      ) : (
        <Anchor component={Link} href={`/operator/providers/${provider}`} size="sm">
          {provider}
        </Anchor>
      ),
  },
  { header: 'Began', card: 'line', nowrap: true, cell: ({ opened_at }) => <Time at={opened_at} /> },
  { header: 'Lasted', card: 'labelled', nowrap: true, cell: incident => <Lasted incident={incident} /> },
]
