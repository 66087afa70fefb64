import { Group, Select, Text } from '@mantine/core'
import { useInfiniteQuery } from '@tanstack/react-query'
import type { AuditAnswer, AuditEvent } from '../../../wire/audit.ts'
import { call, queryText } from '../../api.ts'
import { TextFilter, useFilter } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { Empty } from '../../components/states.tsx'
import { type Column, PagedTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { moment } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { sentenceOf, things } from './actions.ts'
import { ChangeList } from './changes.tsx'

const pageSize = 50
const actorNotes: Record<AuditEvent['actor']['kind'], string | null> = {
  user: null,
  provisioning_key: 'by provisioning key',
  operator: 'service operator',
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
      description="Changes in this organisation, made in the dashboard, with a provisioning key or by an operator. Entries cannot be changed or deleted."
    >
      <Filters />
      <PagedTable
        label="Audit log"
        query={events}
        columns={columns}
        rowKey={({ id }) => id}
        minWidth={760}
        empty={
          <Empty title="No entries found">
            Change the filters to see other entries. Changes to API keys, members and settings are recorded here.
          </Empty>
        }
      />
    </Page>
  )
}

function Filters() {
  const [action, setAction] = useFilter('action')
  const width = { base: '100%', xs: 220 }
  return (
    <Group align="flex-end">
      <TextFilter name="actor" label="Actor" placeholder="Email address or key" w={width} />
      <Select
        label="Action"
        placeholder="All"
        clearable
        clearButtonProps={{ 'aria-label': 'Show all actions' }}
        w={width}
        data={things}
        value={action || null}
        onChange={value => setAction(value ?? '')}
      />
      <TextFilter name="target" label="Object" placeholder="API key name, member …" w={width} />
    </Group>
  )
}

const columns: Column<AuditEvent>[] = [
  {
    header: 'Time',
    width: 170,
    cell: ({ at }) => (
      <>
        <Text size="sm">{moment(at)}</Text>
        <Text size="xs" c="dimmed" component="div">
          <Time at={at} />
        </Text>
      </>
    ),
  },
  {
    header: 'Actor',
    maxWidth: 220,
    cell: ({ actor }) => (
      <>
        <Text size="sm">{actor.name}</Text>
        {actorNotes[actor.kind] && (
          <Text size="xs" c="dimmed">
            {actorNotes[actor.kind]}
          </Text>
        )}
      </>
    ),
  },
  { header: 'Action', kind: 'rowHeader', maxWidth: 260, cell: event => <Sentence event={event} /> },
  { header: 'Change', maxWidth: 320, cell: event => <ChangeList {...event} /> },
]

function Sentence({ event }: { event: AuditEvent }) {
  const { text, object } = sentenceOf(event)
  return (
    <Text size="sm">
      {text}
      {object !== null && (
        <Text span inherit fw={500}>
          {' '}
          {object}
        </Text>
      )}
    </Text>
  )
}
