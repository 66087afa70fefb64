import { Badge, Button, SimpleGrid, Stack, Table } from '@mantine/core'
import { IconExternalLink } from '@tabler/icons-react'
import type { QueueState, SystemAnswer } from '../../../wire/operator.ts'
import { Facts, Section } from '../../components/facts.tsx'
import { Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Time } from '../../components/time.tsx'
import { count } from '../../format.ts'
import { useSystem } from './queries.ts'

/** Queues, ledger and processes, as they are now. */
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

function Queues({ queues }: { queues: QueueState[] }) {
  return (
    <Section title="Queues">
      <Stack align="flex-start">
        <Table.ScrollContainer minWidth={560} w="100%">
          <Table>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Queue</Table.Th>
                <Table.Th ta="right">Workers</Table.Th>
                <Table.Th ta="right">Waiting</Table.Th>
                <Table.Th ta="right">Active</Table.Th>
                <Table.Th ta="right">Delayed</Table.Th>
                <Table.Th ta="right">Failed</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {queues.map(({ name, paused, workers, ...counts }) => (
                <Table.Tr key={name}>
                  <Table.Td>
                    {name} {paused && <Status value="paused" />}
                    {workers === 0 && (
                      <Badge color="red" size="sm">
                        no worker
                      </Badge>
                    )}
                  </Table.Td>
                  {[workers, counts.waiting, counts.active, counts.delayed, counts.failed].map((value, i) => (
                    // biome-ignore lint/suspicious/noArrayIndexKey: columns have no other name, and do not move
                    <Table.Td key={i} ta="right" className="numeric">
                      {count(value)}
                    </Table.Td>
                  ))}
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
        <Button
          component="a"
          href="/dashboard/operator/queues"
          variant="default"
          rightSection={<IconExternalLink size={16} aria-hidden />}
        >
          Open the board of the queues
        </Button>
      </Stack>
    </Section>
  )
}

function Work({ system: { ledger, jobs, batches } }: { system: SystemAnswer }) {
  return (
    <Section title="Work and ledger">
      <Facts
        facts={[
          ['Jobs queued', count(jobs.queued)],
          ['Jobs in progress', count(jobs.in_progress)],
          ['Unfinished batches', count(batches)],
          ['Usage to be booked', count(ledger.waiting)],
          ledger.oldest_at === null
            ? null
            : ['The first of it waits since', <Time key="oldest" at={ledger.oldest_at} />],
          ['Usage the ledger refused', count(ledger.refused)],
        ]}
      />
    </Section>
  )
}

function Instances({ instances }: Pick<SystemAnswer, 'instances'>) {
  return (
    <Section title="Processes">
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Process</Table.Th>
            <Table.Th>Last sign of life</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {instances.map(({ id, seen_at }) => (
            <Table.Tr key={id}>
              <Table.Td ff="monospace" style={{ overflowWrap: 'anywhere' }}>
                {id}
              </Table.Td>
              <Table.Td>
                <Time at={seen_at} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Section>
  )
}
