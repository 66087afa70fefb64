import { Anchor, Button, Group, Select, Stack, Table, Text, VisuallyHidden } from '@mantine/core'
import { useState } from 'react'
import { Link } from 'wouter'
import type { OperatorPerson } from '../../../wire/operator.ts'
import { Confirm } from '../../components/confirm.tsx'
import { TextFilter, useFilter } from '../../components/filters.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Time } from '../../components/time.tsx'
import { useMe } from '../../session.tsx'
import { usePeople, useSetOperator } from './queries.ts'

/** Everybody with a login, the newest first. */
export function People() {
  const [search] = useFilter('search')
  const [operator, setOperator] = useFilter('operator')
  const [changing, setChanging] = useState<OperatorPerson | null>(null)
  const people = usePeople({ search, operator })
  return (
    <Stack>
      <Group align="flex-end">
        <TextFilter name="search" label="Search" placeholder="Name or email" w={{ base: '100%', xs: 300 }} />
        <Select
          label="Who"
          w={{ base: '100%', xs: 180 }}
          allowDeselect={false}
          data={[
            { value: '', label: 'Everybody' },
            { value: 'true', label: 'Operators' },
          ]}
          value={operator}
          onChange={value => setOperator(value ?? '')}
        />
      </Group>
      <Show query={people}>
        {({ pages }) => {
          const rows = pages.flatMap(({ data }) => data)
          if (rows.length > 0) return <PeopleTable people={rows} onChange={setChanging} />
          return <Empty title="Nobody is found">Search for something else.</Empty>
        }}
      </Show>
      {people.hasNextPage && (
        <Group justify="center">
          <Button variant="default" loading={people.isFetchingNextPage} onClick={() => void people.fetchNextPage()}>
            Show more
          </Button>
        </Group>
      )}
      {changing && <Change person={changing} onClose={() => setChanging(null)} />}
    </Stack>
  )
}

function PeopleTable({ people, onChange }: { people: OperatorPerson[]; onChange: (person: OperatorPerson) => void }) {
  const me = useMe()
  return (
    <Table.ScrollContainer minWidth={720}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Person</Table.Th>
            <Table.Th>Organisations</Table.Th>
            <Table.Th>Signed up</Table.Th>
            <Table.Th>Operator</Table.Th>
            <Table.Th>
              <VisuallyHidden>Actions</VisuallyHidden>
            </Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {people.map(person => (
            <Table.Tr key={person.id}>
              <Table.Td>
                <Text size="sm" fw={500}>
                  {person.name}
                  {person.id === me.data?.id && ' (you)'}
                </Text>
                <Text size="xs" c="dimmed">
                  {person.email}
                  {!person.email_verified && ' (not confirmed)'}
                </Text>
              </Table.Td>
              <Table.Td>
                <Memberships organisations={person.organisations} />
              </Table.Td>
              <Table.Td style={{ whiteSpace: 'nowrap' }}>
                <Time at={person.created_at} />
              </Table.Td>
              <Table.Td>{person.operator ? <Status value="active" /> : '–'}</Table.Td>
              <Table.Td ta="right">
                {person.id !== me.data?.id && (person.operator || person.email_verified) && (
                  <Button size="compact-sm" variant="default" onClick={() => onChange(person)}>
                    {person.operator ? 'Demote' : 'Make operator'}
                    <VisuallyHidden> {person.email}</VisuallyHidden>
                  </Button>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  )
}

function Memberships({ organisations }: Pick<OperatorPerson, 'organisations'>) {
  if (organisations.length === 0) return '–'
  return organisations.map(({ id, name, role }) => (
    <Text key={id} size="sm">
      <Anchor component={Link} href={`/operator/organisations/${id}`} inherit>
        {name}
      </Anchor>{' '}
      <Text span size="xs" c="dimmed">
        {role}
      </Text>
    </Text>
  ))
}

function Change({ person, onClose }: { person: OperatorPerson; onClose: () => void }) {
  const change = useSetOperator(person, onClose)
  const action = person.operator ? 'Demote' : 'Make operator'
  return (
    <Confirm
      title={`${action}: ${person.email}`}
      action={action}
      danger={!person.operator}
      pending={change.isPending}
      error={change.error}
      onConfirm={() => change.mutate()}
      onClose={onClose}
    >
      {person.operator
        ? 'They lose the operator area at once. Their organisations stay as they are.'
        : 'They see every organisation, may credit them and issue provisioning keys, and work on the queues.'}
    </Confirm>
  )
}
