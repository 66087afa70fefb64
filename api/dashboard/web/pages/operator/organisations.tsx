import { Anchor, Button, Group, Stack, Text, TextInput } from '@mantine/core'
import { IconPlus } from '@tabler/icons-react'
import { useState } from 'react'
import { Link, useLocation } from 'wouter'
import type { OperatorOrganisation } from '../../../wire/operator.ts'
import { OpenModal } from '../../components/dialogs.tsx'
import { TextFilter, useFilter } from '../../components/filters.tsx'
import { Form } from '../../components/form.tsx'
import { Empty } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { type Column, PagedTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { count, usd } from '../../format.ts'
import { useCreateOrganisation, useOrganisations } from './queries.ts'

/** All organisations, newest first. */
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
          placeholder="Name, ID or member’s email"
          w={{ base: '100%', xs: 300 }}
        />
        <Button leftSection={<IconPlus size={16} aria-hidden />} onClick={() => setCreating(true)}>
          New organisation
        </Button>
      </Group>
      <PagedTable
        label="Organisations"
        query={organisations}
        columns={columns}
        rowKey={({ id }) => id}
        minWidth={720}
        empty={<Empty title="No organisations found">Change the search, or create an organisation.</Empty>}
      />
      {creating && <Creation onClose={() => setCreating(false)} />}
    </Stack>
  )
}

const columns: Column<OperatorOrganisation>[] = [
  {
    header: 'Organisation',
    card: 'lead',
    kind: 'rowHeader',
    cell: ({ id, name, suspended }) => (
      <>
        <Anchor component={Link} href={`/operator/organisations/${id}`} size="sm" fw={500}>
          {name}
        </Anchor>{' '}
        {suspended && <Status value="suspended" />}
        <Text size="xs" c="dimmed" ff="monospace">
          {id}
        </Text>
      </>
    ),
  },
  { header: 'Balance', card: 'aside', kind: 'number', cell: ({ balance_usd }) => usd(balance_usd) },
  { header: 'Spend this month', card: 'labelled', kind: 'number', cell: ({ month_spend_usd }) => usd(month_spend_usd) },
  { header: 'Members', card: 'labelled', kind: 'number', cell: ({ members }) => count(members) },
  { header: 'API keys', card: 'labelled', kind: 'number', cell: ({ keys }) => count(keys) },
  { header: 'Created', nowrap: true, cell: ({ created_at }) => <Time at={created_at} /> },
]

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
          description="The owner must have signed up and confirmed this address. Without an owner, only provisioning keys can manage the organisation."
          type="email"
          value={email}
          onChange={event => setEmail(event.currentTarget.value)}
        />
      </Form>
    </OpenModal>
  )
}
