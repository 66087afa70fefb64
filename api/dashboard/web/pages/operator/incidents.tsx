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
    <Section title="Incidents">
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

const titles: Record<Incident['kind'], string> = {
  circuit: 'Not called: circuit opened',
  key: 'API key refused',
  failing: 'Many failures',
  paused: 'Paused',
  instance: 'Process lost',
  no_worker: 'No worker was running',
  housekeeping: 'Housekeeping overdue',
  backlog: 'Backlog of unbooked usage',
  refused_events: 'Usage events rejected',
  reservations: 'Reservations exceeded',
  webhook: 'Webhook endpoint failing',
}

const columns: Column<Incident>[] = [
  {
    header: 'Incident',
    kind: 'rowHeader',
    maxWidth: 460,
    cell: ({ kind, subject, model, message }) => (
      <>
        <Text size="sm" fw={500}>
          {titles[kind]}
          {model !== null && <Text span> · {model}</Text>}
        </Text>
        {kind === 'instance' && (
          <Text size="xs" ff="monospace">
            {subject}
          </Text>
        )}
        {message !== null && (
          <Text size="xs" c="dimmed">
            {message}
          </Text>
        )}
        {kind === 'webhook' && (
          <Anchor component={Link} href={`/operator/organisations/${subject.split('|')[0]}`} size="xs">
            Open the organisation
          </Anchor>
        )}
      </>
    ),
  },
  {
    header: 'Provider',
    cell: ({ provider }) =>
      provider === null ? (
        '–'
      ) : (
        <Anchor component={Link} href={`/operator/providers/${provider}`} size="sm">
          {provider}
        </Anchor>
      ),
  },
  { header: 'Began', nowrap: true, cell: ({ opened_at }) => <Time at={opened_at} /> },
  {
    header: 'Lasted',
    nowrap: true,
    cell: ({ opened_at, closed_at }) =>
      closed_at === null ? (
        <Badge color="red">ongoing</Badge>
      ) : (
        duration(Math.max(0, Date.parse(closed_at) - Date.parse(opened_at)))
      ),
  },
]
