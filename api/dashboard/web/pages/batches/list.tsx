import { Anchor, Button, Group, Table, Text } from '@mantine/core'
import { IconTerminal2 } from '@tabler/icons-react'
import { useState } from 'react'
import { Link } from 'wouter'
import type { BatchRow, BatchStatus } from '../../../wire/batches.ts'
import { useFilter } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Time } from '../../components/time.tsx'
import { usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { ChoiceFilter, environments, KeyFilter } from '../work/filters.tsx'
import { KeyName } from '../work/parts.tsx'
import { BatchProgress } from './progress.tsx'
import { useBatches } from './queries.ts'
import { HowToSubmit } from './submit.tsx'

const statuses: { value: BatchStatus | 'unfinished'; label: string }[] = [
  { value: 'unfinished', label: 'Unfinished' },
  { value: 'validating', label: 'Validating' },
  { value: 'in_progress', label: 'In progress' },
  { value: 'finalizing', label: 'Finalizing' },
  { value: 'cancelling', label: 'Cancelling' },
  { value: 'completed', label: 'Completed' },
  { value: 'failed', label: 'Failed' },
  { value: 'cancelled', label: 'Cancelled' },
  { value: 'expired', label: 'Expired' },
]

/** Batches, the newest first. */
export function BatchList() {
  const [submitting, setSubmitting] = useState(false)
  const [status] = useFilter('status')
  const [environment] = useFilter('environment')
  const [key] = useFilter('key')
  const batches = useBatches({ status, environment, key })
  const isFiltered = status + environment + key !== ''
  return (
    <Page
      title="Batches"
      description="Files of requests, run within 24 hours for less than direct requests cost. Unfinished batches are followed live."
      actions={
        <Button
          variant="default"
          leftSection={<IconTerminal2 size={16} aria-hidden />}
          onClick={() => setSubmitting(true)}
        >
          How to submit a batch
        </Button>
      }
    >
      <Group align="flex-end">
        <ChoiceFilter name="status" label="Status" data={statuses} />
        <ChoiceFilter name="environment" label="Environment" data={environments} />
        <KeyFilter />
      </Group>
      <Show query={batches}>
        {({ pages }) => {
          const rows = pages.flatMap(({ data }) => data)
          if (rows.length > 0) return <BatchTable batches={rows} />
          if (isFiltered) return <Empty title="No batch is found">Widen the filters to see others.</Empty>
          return (
            <Empty title="No batches yet">
              <Anchor component="button" type="button" inherit onClick={() => setSubmitting(true)}>
                Submit a file of requests
              </Anchor>{' '}
              with one of your keys; a test key costs nothing.
            </Empty>
          )
        }}
      </Show>
      {batches.hasNextPage && (
        <Group justify="center">
          <Button variant="default" loading={batches.isFetchingNextPage} onClick={() => void batches.fetchNextPage()}>
            Show more
          </Button>
        </Group>
      )}
      <HowToSubmit opened={submitting} onClose={() => setSubmitting(false)} />
    </Page>
  )
}

function BatchTable({ batches }: { batches: BatchRow[] }) {
  const { home } = usePlace()
  return (
    <Table.ScrollContainer minWidth={880}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Batch</Table.Th>
            <Table.Th>Status</Table.Th>
            <Table.Th w={270}>Lines</Table.Th>
            <Table.Th>Key</Table.Th>
            <Table.Th ta="right">Cost</Table.Th>
            <Table.Th>Created</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {batches.map(batch => (
            <Table.Tr key={batch.id}>
              <Table.Td>
                <Anchor
                  component={Link}
                  href={`${home}/batches/${batch.id}`}
                  size="sm"
                  ff="monospace"
                  style={{ whiteSpace: 'nowrap' }}
                >
                  {batch.id}
                </Anchor>
                <Text size="xs" c="dimmed">
                  {batch.model ?? 'several models'} · {batch.endpoint}
                </Text>
              </Table.Td>
              <Table.Td>
                <Status value={batch.status} />
              </Table.Td>
              <Table.Td>
                <BatchProgress batch={batch} label={`Progress of ${batch.id}`} />
              </Table.Td>
              <Table.Td>
                <Text size="sm" component="div">
                  <KeyName value={batch.key} />
                </Text>
                <Status value={batch.environment} size="xs" />
              </Table.Td>
              <Table.Td ta="right" className="numeric">
                {usd(batch.cost_usd)}
              </Table.Td>
              <Table.Td style={{ whiteSpace: 'nowrap' }}>
                <Time at={batch.created_at} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  )
}
