import { Group, SimpleGrid, Stack } from '@mantine/core'
import type { BatchDetail } from '../../../wire/batches.ts'
import { type Fact, Facts, Section } from '../../components/facts.tsx'
import { Moments } from '../../components/moments.tsx'
import { Page } from '../../components/page.tsx'
import { Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Time } from '../../components/time.tsx'
import { Cancel } from '../../components/work/cancel.tsx'
import { Id, KeyName, RawJson, Trail, Webhook } from '../../components/work/parts.tsx'
import { count, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { Files } from './files.tsx'
import { Errors, Faults } from './problems.tsx'
import { BatchProgress } from './progress.tsx'
import { isOver, useBatch } from './queries.ts'

/** One batch, polled until it has ended. */
export function BatchPage({ id }: { id: string }) {
  const { home } = usePlace()
  const batch = useBatch(id)
  return (
    <Stack gap="sm">
      <Trail href={`${home}/batches`} list="Batches">
        {id}
      </Trail>
      <Page
        id={id}
        title="Batch"
        description={
          batch.data && (
            <Group gap="xs" aria-live="polite">
              <Status value={batch.data.status} />
              <Status value={batch.data.environment} />
              {batch.data.endpoint}
            </Group>
          )
        }
        actions={
          batch.data?.may_cancel && (
            <Cancel what="batch" sort="batches" id={id}>
              Finished lines are kept and charged. All other lines are written to the error file.
            </Cancel>
          )
        }
      >
        <Show query={batch}>{data => <Batch batch={data} />}</Show>
      </Page>
    </Stack>
  )
}

function Batch({ batch }: { batch: BatchDetail }) {
  const hasErrors = batch.files.some(({ file }) => file === 'errors')
  return (
    <Stack>
      {(!isOver(batch) || batch.total > 0) && <BatchProgress batch={batch} label="Progress of the batch" />}
      {batch.faults.length > 0 && <Faults faults={batch.faults} />}
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
        <Section title="Details">
          <Facts facts={factsOf(batch)} />
        </Section>
        <Section title="Timeline">
          <Moments moments={momentsOf(batch)} />
        </Section>
      </SimpleGrid>
      <Files batch={batch} />
      {hasErrors && <Errors id={batch.id} />}
      <RawJson title="The batch as the API returns it" value={batch.object} />
    </Stack>
  )
}

const endColors: Partial<Record<BatchDetail['status'], string>> = { completed: 'teal', failed: 'red' }

function momentsOf(batch: BatchDetail) {
  return [
    { label: 'Created', at: batch.created_at },
    { label: 'Input validated', at: batch.in_progress_at },
    { label: 'Cancellation requested', at: batch.cancelling_at },
    { label: 'Lines completed', at: batch.finalizing_at },
    {
      label: batch.status[0]!.toUpperCase() + batch.status.slice(1),
      at: batch.ended_at,
      color: endColors[batch.status] ?? 'gray',
    },
  ]
}

function factsOf(batch: BatchDetail): (Fact | null)[] {
  return [
    ['ID', <Id key="id" value={batch.id} label="batch ID" />, 'wide'],
    ['Model', batch.model ?? (batch.total === 0 ? 'unknown' : 'several')],
    ['Run by', batch.provider === null ? 'Gateway, line by line' : `${batch.provider}, as a provider batch`],
    ['Key', <KeyName key="key" value={batch.key} />],
    [isOver(batch) ? 'Cost' : 'Cost so far', usd(batch.cost_usd)],
    ['Input tokens', count(batch.input_tokens)],
    ['Output tokens', count(batch.output_tokens)],
    isOver(batch) ? null : ['Expires', <Time key="deadline" at={batch.deadline_at} />],
    ['Request', <Id key="request" value={batch.request_id} label="request ID" />, 'wide'],
    batch.webhook_url === null
      ? null
      : ['Webhook', <Webhook key="webhook" url={batch.webhook_url} delivery={batch.delivery} />, 'wide'],
  ]
}
