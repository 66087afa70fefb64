import { Anchor, Button, Group, Stack, Text, Title } from '@mantine/core'
import { IconPlus } from '@tabler/icons-react'
import { useState } from 'react'
import { Link, useLocation } from 'wouter'
import type { AddressFigures, DashboardEndpoint, RequestedAddress } from '../../../wire/webhook-endpoints.ts'
import { SigningSecret } from '../../components/signing-secret.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { count, duration, percent } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { CreateEndpoint } from './endpoint-form.tsx'
import { useEndpoints } from './endpoint-queries.ts'

/** The organisation's endpoints, and the URLs that only jobs, batches or the alert settings named. */
export function Endpoints() {
  const { home, may, suspended } = usePlace()
  const [, go] = useLocation()
  const endpoints = useEndpoints()
  const [isAdding, setAdding] = useState(false)
  const [created, setCreated] = useState<{ id: string; secret: string } | null>(null)
  const open = (id: string) => go(`${home}/webhooks/endpoints/${id}`)
  return (
    <Show query={endpoints} rows={3}>
      {({ data, requested, patterns }) => (
        <Stack>
          {may('manage') && (
            <Group justify="flex-end">
              <Button
                disabled={suspended}
                leftSection={<IconPlus size={16} aria-hidden />}
                onClick={() => setAdding(true)}
              >
                Add endpoint
              </Button>
            </Group>
          )}
          <DataTable
            label="Endpoints"
            rows={data}
            columns={endpointColumns(home)}
            rowKey={({ id }) => id}
            minWidth={820}
            empty={
              <Empty title="No endpoints yet">
                An endpoint receives every event of the organisation with the types you choose, in addition to the
                webhook_url of a job or batch.
              </Empty>
            }
          />
          {requested.length > 0 && (
            <>
              <Title order={2}>From requests</Title>
              <Text size="sm" c="dimmed">
                URLs of the last 24 hours that jobs, batches or the alert settings named themselves.
              </Text>
              <DataTable
                label="URLs from requests"
                rows={requested}
                columns={requestedColumns(home)}
                rowKey={({ url }) => url}
                minWidth={720}
              />
            </>
          )}
          {isAdding && (
            <CreateEndpoint
              patterns={patterns}
              onClose={() => setAdding(false)}
              onCreated={({ data: { id }, secret }) => {
                setAdding(false)
                if (secret === null) open(id)
                else setCreated({ id, secret })
              }}
            />
          )}
          {created && <SigningSecret secret={created.secret} onClose={() => open(created.id)} />}
        </Stack>
      )}
    </Show>
  )
}

const figureColumns: Column<{ figures: AddressFigures }>[] = [
  { header: 'Success, 24 h', card: 'labelled', kind: 'number', cell: ({ figures }) => <Success figures={figures} /> },
  {
    header: 'p95',
    card: 'labelled',
    kind: 'number',
    nowrap: true,
    cell: ({ figures: { p95_ms } }) => (p95_ms === null ? '–' : duration(p95_ms)),
  },
  { header: 'Last failure', card: 'line', maxWidth: 260, cell: ({ figures }) => <LastFailure figures={figures} /> },
]

const endpointColumns = (home: string): Column<DashboardEndpoint>[] => [
  {
    header: 'URL',
    card: 'lead',
    kind: 'rowHeader',
    maxWidth: 300,
    cell: ({ id, url, description }) => (
      <>
        <Anchor component={Link} href={`${home}/webhooks/endpoints/${id}`} size="sm" fw={500}>
          {url}
        </Anchor>
        {description !== '' && (
          <Text size="xs" c="dimmed">
            {description}
          </Text>
        )}
      </>
    ),
  },
  { header: 'Status', card: 'aside', cell: endpoint => <EndpointState endpoint={endpoint} /> },
  { header: 'Events', card: 'line', maxWidth: 200, cell: ({ events }) => <Text size="sm">{eventsText(events)}</Text> },
  ...figureColumns,
]

const requestedColumns = (home: string): Column<RequestedAddress>[] => [
  {
    header: 'URL',
    card: 'lead',
    kind: 'rowHeader',
    maxWidth: 340,
    cell: ({ url }) => (
      <Anchor component={Link} href={`${home}/webhooks?url=${encodeURIComponent(url.slice(0, 200))}`} size="sm">
        {url}
      </Anchor>
    ),
  },
  ...figureColumns,
]

/** The types of events that an endpoint receives. */
export function eventsText(events: string[]): string {
  return events.includes('*') ? 'all' : events.join(', ')
}

/** Whether events are sent to it, and whether they arrive. */
export function EndpointState({ endpoint }: { endpoint: DashboardEndpoint }) {
  const { enabled, disabled_for_failures, figures } = endpoint
  if (!enabled)
    return (
      <>
        <Status value="disabled" />
        {disabled_for_failures && (
          <Text size="xs" c="dimmed">
            its deliveries failed for days
          </Text>
        )}
      </>
    )
  return <Status value={figures.failed + figures.retrying > 0 ? 'failing' : 'enabled'} />
}

/** The share of the deliveries of 24 hours that arrived. */
export function Success({ figures: { delivered, failed, retrying } }: { figures: AddressFigures }) {
  const all = delivered + failed + retrying
  if (all === 0) return '–'
  return (
    <>
      {percent(delivered / all)}
      <Text size="xs" c="dimmed">
        {count(delivered)} of {count(all)}
      </Text>
    </>
  )
}

export function LastFailure({ figures: { last_failure: failure } }: { figures: AddressFigures }) {
  if (!failure)
    return (
      <Text span size="sm" c="dimmed">
        none
      </Text>
    )
  return (
    <>
      <Text size="sm" lineClamp={2} title={failure.text}>
        {failure.status === null ? failure.text : `HTTP ${failure.status} ${failure.text}`}
      </Text>
      <Text size="xs" c="dimmed" component="div">
        <Time at={failure.at} />
      </Text>
    </>
  )
}
