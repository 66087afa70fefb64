import { Anchor, Button, Group, Text } from '@mantine/core'
import { IconTerminal2 } from '@tabler/icons-react'
import { useState } from 'react'
import { Link } from 'wouter'
import type { BatchRow, BatchStatus } from '../../../wire/batches.ts'
import { FilterPanel, useFilter } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { SpanPicker, useTime } from '../../components/span.tsx'
import { Empty } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { type Column, PagedTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { ChoiceFilter, environments, IdFilter, KeyFilter, NoMatches } from '../../components/work/filters.tsx'
import { keyCell } from '../../components/work/parts.tsx'
import { usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
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
  const { home } = usePlace()
  const [submitting, setSubmitting] = useState(false)
  const [status] = useFilter('status')
  const [environment] = useFilter('environment')
  const [key] = useFilter('key')
  const [q] = useFilter('q')
  const [time, setTime] = useTime('all')
  const batches = useBatches({ q, status, environment, key, ...time })
  const isFiltered = q + status + environment + key !== '' || Object.keys(time).length > 0
  return (
    <Page
      title="Batches"
      description="Process files of requests within 24 hours at a discount. Unfinished batches update automatically."
      actions={
        <>
          <SpanPicker time={time} onChange={setTime} hasAll />
          <Button
            variant="default"
            leftSection={<IconTerminal2 size={16} aria-hidden />}
            onClick={() => setSubmitting(true)}
          >
            How to submit a batch
          </Button>
        </>
      }
    >
      <FilterPanel names={['q', 'status', 'environment', 'key']}>
        <Group align="flex-end">
          <IdFilter placeholder="Batch or request ID" />
          <ChoiceFilter name="status" label="Status" data={statuses} />
          <ChoiceFilter name="environment" label="Environment" data={environments} />
          <KeyFilter />
        </Group>
      </FilterPanel>
      <PagedTable
        label="Batches"
        query={batches}
        columns={columns(home)}
        rowKey={({ id }) => id}
        minWidth={880}
        empty={
          isFiltered ? (
            <NoMatches what="batches" />
          ) : (
            <Empty title="No batches yet">
              <Anchor component="button" type="button" inherit onClick={() => setSubmitting(true)}>
                Submit a file of requests
              </Anchor>{' '}
              with one of your API keys. Test keys are free.
            </Empty>
          )
        }
      />
      <HowToSubmit opened={submitting} onClose={() => setSubmitting(false)} />
    </Page>
  )
}

const columns = (home: string): Column<BatchRow>[] => [
  {
    header: 'Batch',
    kind: 'rowHeader',
    card: 'lead',
    cell: ({ id, model, total, endpoint }) => (
      <>
        <Anchor component={Link} href={`${home}/batches/${id}`} size="sm" ff="monospace">
          {id}
        </Anchor>
        <Text size="xs" c="dimmed">
          {[model ?? (total === 0 ? null : 'multiple models'), endpoint].filter(Boolean).join(' · ')}
        </Text>
      </>
    ),
  },
  { header: 'Status', card: 'line', cell: ({ status }) => <Status value={status} /> },
  {
    header: 'Lines',
    width: 270,
    card: 'line',
    cell: batch => <BatchProgress batch={batch} label={`Progress of ${batch.id}`} />,
  },
  { header: 'Key', maxWidth: 260, cell: keyCell },
  { header: 'Cost', kind: 'number', card: 'aside', cell: ({ cost_usd }) => usd(cost_usd) },
  { header: 'Created', nowrap: true, card: 'line', cell: ({ created_at }) => <Time at={created_at} /> },
]
