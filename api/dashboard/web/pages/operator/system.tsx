import { Badge, Button, SimpleGrid, Stack, Text } from '@mantine/core'
import { IconExternalLink } from '@tabler/icons-react'
import type { QueueState, SystemAnswer } from '../../../wire/operator.ts'
import { Facts, Section } from '../../components/facts.tsx'
import { Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { count } from '../../format.ts'
import { useSystem } from './queries.ts'

/** The current state of queues, ledger and processes. */
export function System() {
  const system = useSystem()
  return (
    <Show query={system}>
      {data => (
        <Stack>
          <Queues queues={data.queues} />
          <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
            <Work system={data} />
            <Instances instances={data.instances} />
          </SimpleGrid>
        </Stack>
      )}
    </Show>
  )
}

const queueColumns: Column<QueueState>[] = [
  {
    header: 'Queue',
    kind: 'rowHeader',
    cell: ({ name, paused, workers }) => (
      <>
        {name} {paused && <Status value="paused" />}
        {workers === 0 && (
          <Badge color="red" size="sm">
            no worker
          </Badge>
        )}
      </>
    ),
  },
  { header: 'Workers', kind: 'number', cell: ({ workers }) => count(workers) },
  { header: 'Waiting', kind: 'number', cell: ({ waiting }) => count(waiting) },
  { header: 'Active', kind: 'number', cell: ({ active }) => count(active) },
  { header: 'Delayed', kind: 'number', cell: ({ delayed }) => count(delayed) },
  { header: 'Failed', kind: 'number', cell: ({ failed }) => count(failed) },
]

function Queues({ queues }: { queues: QueueState[] }) {
  return (
    <Section title="Queues">
      <Stack align="flex-start">
        <DataTable label="Queues" rows={queues} columns={queueColumns} rowKey={({ name }) => name} minWidth={560} />
        <Button
          component="a"
          href="/dashboard/operator/queues"
          variant="default"
          rightSection={<IconExternalLink size={16} aria-hidden />}
        >
          Open the queue board
        </Button>
      </Stack>
    </Section>
  )
}

function Work({ system: { ledger, jobs, batches } }: { system: SystemAnswer }) {
  return (
    <Section title="Jobs and ledger">
      <Facts
        facts={[
          ['Jobs queued', count(jobs.queued)],
          ['Jobs in progress', count(jobs.in_progress)],
          ['Unfinished batches', count(batches)],
          ['Unbooked usage events', count(ledger.waiting)],
          ledger.oldest_at === null ? null : ['Oldest unbooked event', <Time key="oldest" at={ledger.oldest_at} />],
          ['Rejected usage events', count(ledger.refused)],
        ]}
      />
    </Section>
  )
}

const instanceColumns: Column<SystemAnswer['instances'][number]>[] = [
  {
    header: 'Process',
    kind: 'rowHeader',
    maxWidth: 320,
    cell: ({ id }) => (
      <Text size="sm" ff="monospace">
        {id}
      </Text>
    ),
  },
  { header: 'Last heartbeat', cell: ({ seen_at }) => <Time at={seen_at} /> },
]

function Instances({ instances }: Pick<SystemAnswer, 'instances'>) {
  return (
    <Section title="Processes">
      <DataTable label="Processes" rows={instances} columns={instanceColumns} rowKey={({ id }) => id} />
    </Section>
  )
}
