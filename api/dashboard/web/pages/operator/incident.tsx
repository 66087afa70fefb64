import { Anchor, Breadcrumbs, Stack, Text } from '@mantine/core'
import { Link } from 'wouter'
import type { IncidentDetail, IncidentKind, IncidentRecord } from '../../../wire/operator-home.ts'
import { Facts, Section } from '../../components/facts.tsx'
import { Page } from '../../components/page.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { Affected } from './affected.tsx'
import { useIncident } from './home-queries.ts'
import { Lasted } from './incidents.tsx'
import { Messages } from './messages.tsx'

/** One incident: what failed and when, whom it affected, and who was told. */
export default function IncidentPage({ id }: { id: string }) {
  const incident = useIncident(id)
  const title = incident.data?.title ?? 'Incident'
  return (
    <Stack gap="sm">
      <Breadcrumbs>
        <Anchor component={Link} href="/operator#incidents" size="sm">
          Incidents
        </Anchor>
        <Text size="sm" lh={1.6}>
          {title}
        </Text>
      </Breadcrumbs>
      <Page title={title}>
        <Show query={incident}>{data => <Details incident={data} />}</Show>
      </Page>
    </Stack>
  )
}

function Details({ incident }: { incident: IncidentDetail }) {
  const { provider, models, message, opened_at, closed_at, records, affected, messages } = incident
  return (
    <Stack>
      <Section title="What happened">
        <Facts
          facts={[
            ['Began', <Time key="began" at={opened_at} />],
            ['Ended', closed_at === null ? 'ongoing' : <Time key="ended" at={closed_at} />],
            ['Lasted', <Lasted key="lasted" incident={incident} />],
            provider === null
              ? null
              : [
                  'Provider',
                  <Anchor key="provider" component={Link} href={`/operator/providers/${provider}`} size="sm">
                    {provider}
                  </Anchor>,
                ],
            models.length > 0 ? ['Models', models.join(', '), 'wide'] : null,
            message === null ? null : ['Latest error', message, 'wide'],
          ]}
        />
      </Section>
      {affected && <Affected affected={affected} />}
      <Section title="Course">
        <DataTable label="Course" rows={records} columns={columns} rowKey={({ id }) => id} minWidth={640} />
      </Section>
      <Section title="Messages to operators">
        <Messages
          messages={messages}
          empty={<Empty title="Nobody was told">An incident is told after 20 seconds, if the settings say so.</Empty>}
        />
      </Section>
    </Stack>
  )
}

/** What a fault means, in plain words. */
const faults: Record<IncidentKind, string> = {
  circuit: 'Calls failed repeatedly, so it is called only to probe it',
  key: 'The provider refused an API key',
  failing: 'Many requests failed',
  paused: 'Paused by an operator',
  instance: 'A process stopped sending heartbeats',
  no_worker: 'No worker was running',
  housekeeping: 'Housekeeping was overdue',
  backlog: 'Usage was not booked fast enough',
  refused_events: 'PostgreSQL rejected usage events',
  reservations: 'Requests cost more than was reserved',
  webhook: 'Deliveries to a webhook endpoint failed',
  log_export: 'An export of logs failed',
}

const columns: Column<IncidentRecord>[] = [
  {
    header: 'Fault',
    card: 'lead',
    kind: 'rowHeader',
    maxWidth: 520,
    cell: ({ kind, subject, model, message }) => (
      <>
        <Text size="sm" fw={500}>
          {model !== null && `${model}: `}
          {faults[kind]}
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
  { header: 'Began', card: 'line', nowrap: true, cell: ({ opened_at }) => <Time at={opened_at} /> },
  { header: 'Lasted', card: 'labelled', nowrap: true, cell: record => <Lasted incident={record} /> },
]
