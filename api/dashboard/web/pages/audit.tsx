import { Button, Group, Select, Table, Text } from '@mantine/core'
import { useInfiniteQuery } from '@tanstack/react-query'
import type { AuditAnswer, AuditEvent } from '../../wire/audit.ts'
import { call, queryText } from '../api.ts'
import { TextFilter, useFilter } from '../components/filters.tsx'
import { Page } from '../components/page.tsx'
import { Empty, Show } from '../components/states.tsx'
import { Time } from '../components/time.tsx'
import { moment } from '../format.ts'
import { usePlace } from '../session.tsx'
import { sentenceOf, things } from './audit/actions.ts'
import { ChangeList } from './audit/changes.tsx'

const pageSize = 50
const doors: Record<AuditEvent['actor']['kind'], string | null> = {
  user: null,
  provisioning_key: 'by provisioning key',
  operator: 'operator of the service',
}

export default function Audit() {
  const { id, base } = usePlace()
  const [actor] = useFilter('actor')
  const [action] = useFilter('action')
  const [target] = useFilter('target')
  const filters = { actor, action, target }
  const events = useInfiniteQuery({
    queryKey: [id, 'audit', filters],
    queryFn: ({ pageParam, signal }) =>
      call<AuditAnswer>(`${base}/audit${queryText({ ...filters, limit: pageSize, after: pageParam })}`, { signal }),
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
  })
  return (
    <Page
      title="Audit log"
      description="Who changed what in this organisation, and through which door. Entries are never changed or deleted."
    >
      <Filters />
      <Show query={events}>
        {({ pages }) => {
          const rows = pages.flatMap(({ data }) => data)
          if (rows.length > 0) return <EventTable events={rows} />
          return (
            <Empty title="Nothing is found">
              Widen the filters: every change of keys, members and settings is noted here.
            </Empty>
          )
        }}
      </Show>
      {events.hasNextPage && (
        <Group justify="center">
          <Button variant="default" loading={events.isFetchingNextPage} onClick={() => void events.fetchNextPage()}>
            Show more
          </Button>
        </Group>
      )}
    </Page>
  )
}

function Filters() {
  const [action, setAction] = useFilter('action')
  const width = { base: '100%', xs: 220 }
  return (
    <Group align="flex-end">
      <TextFilter name="actor" label="Who" placeholder="Email address or key" w={width} />
      <Select
        label="What"
        placeholder="Everything"
        clearable
        clearButtonProps={{ 'aria-label': 'Show everything' }}
        w={width}
        data={things}
        value={action || null}
        onChange={value => setAction(value ?? '')}
      />
      <TextFilter name="target" label="To what" placeholder="A key’s name, a member …" w={width} />
    </Group>
  )
}

function EventTable({ events }: { events: AuditEvent[] }) {
  return (
    <Table.ScrollContainer minWidth={760}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th w={170}>When</Table.Th>
            <Table.Th>Who</Table.Th>
            <Table.Th>What</Table.Th>
            <Table.Th>Change</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {events.map(event => (
            <EventRow key={event.id} event={event} />
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  )
}

function EventRow({ event }: { event: AuditEvent }) {
  const { text, object } = sentenceOf(event)
  const door = doors[event.actor.kind]
  return (
    <Table.Tr style={{ verticalAlign: 'top' }}>
      <Table.Td>
        <Text size="sm">{moment(event.at)}</Text>
        <Text size="xs" c="dimmed" component="div">
          <Time at={event.at} />
        </Text>
      </Table.Td>
      <Table.Td maw={220} style={{ overflowWrap: 'anywhere' }}>
        <Text size="sm">{event.actor.name}</Text>
        {door && (
          <Text size="xs" c="dimmed">
            {door}
          </Text>
        )}
      </Table.Td>
      <Table.Td maw={260} style={{ overflowWrap: 'anywhere' }}>
        <Text size="sm">
          {text}
          {object !== null && (
            <Text span inherit fw={500}>
              {' '}
              {object}
            </Text>
          )}
        </Text>
      </Table.Td>
      <Table.Td maw={320}>
        <ChangeList {...event} />
      </Table.Td>
    </Table.Tr>
  )
}
