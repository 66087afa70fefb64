import { Anchor, Button, Group, Select, Stack, Text, VisuallyHidden } from '@mantine/core'
import { useState } from 'react'
import { Link } from 'wouter'
import type { OperatorPerson } from '../../../wire/operator.ts'
import { Confirm } from '../../components/confirm.tsx'
import { TextFilter, useFilter } from '../../components/filters.tsx'
import { Empty } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { type Column, PagedTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { useMe } from '../../session.tsx'
import { usePeople, useSetOperator, useSuspendPerson } from './queries.ts'
import { personSubject, SuspensionDialog } from './suspension.tsx'

/** All users, newest first. */
export function People() {
  const me = useMe()
  const [search] = useFilter('search')
  const [operator, setOperator] = useFilter('operator')
  const [changing, setChanging] = useState<OperatorPerson | null>(null)
  const [suspending, setSuspending] = useState<OperatorPerson | null>(null)
  const people = usePeople({ search, operator })
  return (
    <Stack>
      <Group align="flex-end">
        <TextFilter name="search" label="Search" placeholder="Name or email" w={{ base: '100%', xs: 300 }} />
        <Select
          label="Role"
          w={{ base: '100%', xs: 180 }}
          allowDeselect={false}
          data={[
            { value: '', label: 'All users' },
            { value: 'true', label: 'Operators' },
          ]}
          value={operator}
          onChange={value => setOperator(value ?? '')}
        />
      </Group>
      <PagedTable
        label="Users"
        query={people}
        columns={columns(me.data?.id, setChanging, setSuspending)}
        rowKey={({ id }) => id}
        minWidth={720}
        empty={<Empty title="No users found">Change the search or the filter.</Empty>}
      />
      {changing && <Change person={changing} onClose={() => setChanging(null)} />}
      {suspending && <Suspension person={suspending} onClose={() => setSuspending(null)} />}
    </Stack>
  )
}

const columns = (
  ownId: string | undefined,
  onChange: (person: OperatorPerson) => void,
  onSuspend: (person: OperatorPerson) => void,
): Column<OperatorPerson>[] => [
  {
    header: 'User',
    card: 'lead',
    kind: 'rowHeader',
    cell: ({ id, name, email, email_verified, suspension }) => (
      <>
        <Text size="sm" fw={500}>
          {name}
          {id === ownId && ' (you)'} {suspension && <Status value="suspended" />}
        </Text>
        <Text size="xs" c="dimmed">
          {email}
          {!email_verified && ' (not confirmed)'}
        </Text>
      </>
    ),
  },
  { header: 'Organisations', card: 'line', cell: ({ organisations }) => <Memberships organisations={organisations} /> },
  { header: 'Signed up', card: 'labelled', nowrap: true, cell: ({ created_at }) => <Time at={created_at} /> },
  { header: 'Operator', card: 'aside', cell: ({ operator }) => (operator ? <Status value="operator" /> : '–') },
  {
    header: 'Actions',
    card: 'line',
    kind: 'actions',
    cell: person =>
      person.id !== ownId && (
        <Group gap="xs" wrap="nowrap" justify="flex-end">
          {(person.operator || person.email_verified) && (
            <Button size="compact-sm" variant="default" onClick={() => onChange(person)}>
              {person.operator ? 'Remove operator' : 'Make operator'}
              <VisuallyHidden> {person.email}</VisuallyHidden>
            </Button>
          )}
          <Button size="compact-sm" variant="default" onClick={() => onSuspend(person)}>
            {person.suspension ? 'Resume' : 'Suspend'}
            <VisuallyHidden> {person.email}</VisuallyHidden>
          </Button>
        </Group>
      ),
  },
]

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

function Suspension({ person, onClose }: { person: OperatorPerson; onClose: () => void }) {
  const change = useSuspendPerson(person.id, onClose)
  const { email, suspension } = person
  return <SuspensionDialog subject={personSubject(email)} suspension={suspension} change={change} onClose={onClose} />
}

function Change({ person, onClose }: { person: OperatorPerson; onClose: () => void }) {
  const change = useSetOperator(person, onClose)
  const action = person.operator ? 'Remove operator' : 'Make operator'
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
        ? 'They lose access to the operator area immediately. Their organisations are not affected.'
        : 'They can do everything in the operator area: see all organisations and their requests, add and take credits, issue provisioning keys, suspend organisations and users, pause providers, change models and prices, add servers, manage the queues, and make or remove operators.'}
    </Confirm>
  )
}
