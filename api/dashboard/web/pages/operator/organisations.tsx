import { Anchor, Button, Group, Stack, Table, Text, TextInput } from '@mantine/core'
import { IconPlus } from '@tabler/icons-react'
import { useState } from 'react'
import { Link, useLocation } from 'wouter'
import type { OperatorOrganisation } from '../../../wire/operator.ts'
import { OpenModal } from '../../components/dialogs.tsx'
import { TextFilter, useFilter } from '../../components/filters.tsx'
import { Form } from '../../components/form.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { Time } from '../../components/time.tsx'
import { count, usd } from '../../format.ts'
import { useCreateOrganisation, useOrganisations } from './queries.ts'

/** Every organisation of the service, the newest first. */
export function Organisations() {
  const [search] = useFilter('search')
  const [creating, setCreating] = useState(false)
  const organisations = useOrganisations(search)
  return (
    <Stack>
      <Group justify="space-between" align="flex-end">
        <TextFilter
          name="search"
          label="Search"
          placeholder="Name, id or a member’s email"
          w={{ base: '100%', xs: 300 }}
        />
        <Button leftSection={<IconPlus size={16} aria-hidden />} onClick={() => setCreating(true)}>
          New organisation
        </Button>
      </Group>
      <Show query={organisations}>
        {({ pages }) => {
          const rows = pages.flatMap(({ data }) => data)
          if (rows.length > 0) return <OrganisationTable organisations={rows} />
          return <Empty title="No organisation is found">Search for something else, or create one.</Empty>
        }}
      </Show>
      {organisations.hasNextPage && (
        <Group justify="center">
          <Button
            variant="default"
            loading={organisations.isFetchingNextPage}
            onClick={() => void organisations.fetchNextPage()}
          >
            Show more
          </Button>
        </Group>
      )}
      {creating && <Creation onClose={() => setCreating(false)} />}
    </Stack>
  )
}

function OrganisationTable({ organisations }: { organisations: OperatorOrganisation[] }) {
  return (
    <Table.ScrollContainer minWidth={720}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Organisation</Table.Th>
            <Table.Th ta="right">Balance</Table.Th>
            <Table.Th ta="right">Spend this month</Table.Th>
            <Table.Th ta="right">Members</Table.Th>
            <Table.Th ta="right">Keys</Table.Th>
            <Table.Th>Created</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {organisations.map(row => (
            <Table.Tr key={row.id}>
              <Table.Td>
                <Anchor component={Link} href={`/operator/organisations/${row.id}`} size="sm" fw={500}>
                  {row.name}
                </Anchor>
                <Text size="xs" c="dimmed" ff="monospace">
                  {row.id}
                </Text>
              </Table.Td>
              <Table.Td ta="right" className="numeric">
                {usd(row.balance_usd)}
              </Table.Td>
              <Table.Td ta="right" className="numeric">
                {usd(row.month_spend_usd)}
              </Table.Td>
              <Table.Td ta="right" className="numeric">
                {count(row.members)}
              </Table.Td>
              <Table.Td ta="right" className="numeric">
                {count(row.keys)}
              </Table.Td>
              <Table.Td style={{ whiteSpace: 'nowrap' }}>
                <Time at={row.created_at} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  )
}

function Creation({ onClose }: { onClose: () => void }) {
  const [, navigate] = useLocation()
  const [name, setName] = useState('')
  const [email, setEmail] = useState('')
  const create = useCreateOrganisation({ name, ...(email && { owner_email: email }) }, ({ id }) =>
    navigate(`/operator/organisations/${id}`),
  )
  return (
    <OpenModal onClose={onClose} title="New organisation" centered>
      <Form mutation={create} submit="Create organisation">
        <TextInput
          label="Name"
          required
          maxLength={200}
          value={name}
          onChange={event => setName(event.currentTarget.value)}
          data-autofocus
        />
        <TextInput
          label="Owner’s email"
          description="Somebody who has signed up and confirmed it. Without one, the organisation is used by provisioning keys alone."
          type="email"
          value={email}
          onChange={event => setEmail(event.currentTarget.value)}
        />
      </Form>
    </OpenModal>
  )
}
