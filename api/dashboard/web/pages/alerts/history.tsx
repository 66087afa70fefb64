import { Anchor, Text } from '@mantine/core'
import { Link } from 'wouter'
import type { RaisedAlert } from '../../../wire/alerts.ts'
import { Empty } from '../../components/states.tsx'
import { type Column, PagedTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { moment } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { useHistory } from './queries.ts'

/** The alerts that were raised, with links to what they are about. */
export function History() {
  const { home } = usePlace()
  return (
    <PagedTable
      label="Alerts"
      query={useHistory()}
      columns={columns(home)}
      rowKey={({ id }) => id}
      minWidth={560}
      empty={<Empty title="No alerts yet">Alerts appear here when they are raised.</Empty>}
    />
  )
}

const columns = (home: string): Column<RaisedAlert>[] => [
  {
    header: 'Alert',
    card: 'lead',
    kind: 'rowHeader',
    maxWidth: 420,
    cell: ({ summary, type, path }) => (
      <>
        <Anchor component={Link} href={`${home}/${path}`} size="sm" fw={500}>
          {summary}
        </Anchor>
        <Text size="xs" c="dimmed" ff="monospace">
          {type}
        </Text>
      </>
    ),
  },
  {
    header: 'Raised',
    card: 'line',
    cell: ({ created_at }) => (
      <>
        <Text size="sm">{moment(created_at)}</Text>
        <Text size="xs" c="dimmed" component="div">
          <Time at={created_at} />
        </Text>
      </>
    ),
  },
  {
    header: 'Email',
    card: 'labelled',
    cell: ({ has_email, emailed_at }) =>
      !has_email ? '–' : emailed_at === null ? 'not sent' : <Time at={emailed_at} />,
  },
]
