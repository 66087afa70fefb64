import { Anchor, Breadcrumbs, Button, NumberInput, Select, SimpleGrid, Stack, Text } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { IconPlus } from '@tabler/icons-react'
import { useState } from 'react'
import { Link } from 'wouter'
import type { Credit, CreditMethod, OrganisationDetail } from '../../../wire/operator.ts'
import { OpenModal } from '../../components/dialogs.tsx'
import { Facts, Section } from '../../components/facts.tsx'
import { Form } from '../../components/form.tsx'
import { listAddress } from '../../components/list-address.ts'
import { Page } from '../../components/page.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { Id } from '../../components/work/parts.tsx'
import { count, moment, usd } from '../../format.ts'
import { ProvisioningKeys } from './provisioning.tsx'
import { useAddCredit, useOrganisation } from './queries.ts'

/** One organisation, for operators. */
export function OrganisationPage({ id }: { id: string }) {
  const organisation = useOrganisation(id)
  const [crediting, setCrediting] = useState(false)
  const name = organisation.data?.name ?? 'Organisation'
  return (
    <Stack gap="sm">
      <Breadcrumbs>
        <Anchor component={Link} href={listAddress('/operator')} size="sm">
          Operator area
        </Anchor>
        <Text size="sm" lh={1.6} truncate maw={{ base: 200, xs: 480 }}>
          {name}
        </Text>
      </Breadcrumbs>
      <Page
        title={name}
        actions={
          organisation.data && (
            <Button leftSection={<IconPlus size={16} aria-hidden />} onClick={() => setCrediting(true)}>
              Add credits
            </Button>
          )
        }
      >
        <Show query={organisation}>{data => <Organisation organisation={data} />}</Show>
      </Page>
      {crediting && <Crediting id={id} onClose={() => setCrediting(false)} />}
    </Stack>
  )
}

function Organisation({ organisation }: { organisation: OrganisationDetail }) {
  const { available_usd, reserved_usd, held_usd, held_release_at } = organisation
  const held = held_release_at === null ? usd(held_usd) : `${usd(held_usd)}, next release ${moment(held_release_at)}`
  return (
    <Stack>
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
        <Section title="Wallet">
          <Facts
            facts={[
              ['Balance', usd(organisation.balance_usd)],
              ['Available', usd(available_usd)],
              ['Reserved', usd(reserved_usd)],
              ['Held', held],
              ['Spend this month', usd(organisation.month_spend_usd)],
            ]}
          />
        </Section>
        <Section title="Details">
          <Facts
            facts={[
              ['ID', <Id key="id" value={organisation.id} label="organisation ID" />, 'wide'],
              ['Created', <Time key="created" at={organisation.created_at} />],
              ['Members', count(organisation.members)],
              ['API keys', count(organisation.keys)],
            ]}
          />
        </Section>
      </SimpleGrid>
      <ProvisioningKeys organisation={organisation} />
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
        <Credits credits={organisation.credits} />
        <Members people={organisation.people} />
      </SimpleGrid>
    </Stack>
  )
}

const creditColumns: Column<Credit>[] = [
  { header: 'Amount', kind: 'number', cell: ({ amount_usd }) => usd(amount_usd) },
  {
    header: 'Method',
    cell: ({ method, available_at }) => (
      <>
        {method ?? '–'}
        {available_at !== null && (
          <Text size="xs" c="dimmed">
            {Date.parse(available_at) > Date.now() ? 'held until' : 'released'} {moment(available_at)}
          </Text>
        )}
      </>
    ),
  },
  { header: 'Added', nowrap: true, cell: ({ created_at }) => <Time at={created_at} /> },
]

function Credits({ credits }: { credits: Credit[] }) {
  return (
    <Section title="Recent credits">
      <DataTable
        label="Recent credits"
        rows={credits}
        columns={creditColumns}
        rowKey={({ id }) => id}
        empty={<Empty title="No credits yet">Add credits so that live keys can be used.</Empty>}
      />
    </Section>
  )
}

const memberColumns: Column<OrganisationDetail['people'][number]>[] = [
  {
    header: 'Member',
    kind: 'rowHeader',
    maxWidth: 320,
    cell: ({ name, email }) => (
      <>
        <Text size="sm">{name}</Text>
        <Text size="xs" c="dimmed">
          {email}
        </Text>
      </>
    ),
  },
  { header: 'Role', cell: ({ role }) => <Status value={role} /> },
]

function Members({ people }: { people: OrganisationDetail['people'] }) {
  return (
    <Section title="Members">
      <DataTable
        label="Members"
        rows={people}
        columns={memberColumns}
        rowKey={({ id }) => id}
        empty={<Empty title="No members">This organisation is only used through API keys.</Empty>}
      />
    </Section>
  )
}

const methods: { value: CreditMethod; label: string }[] = [
  { value: 'grant', label: 'Grant' },
  { value: 'card', label: 'Paid by card' },
  { value: 'ach', label: 'Paid by ACH' },
]
const achHoldDays = 5
const maxHoldDays = 365

function Crediting({ id, onClose }: { id: string; onClose: () => void }) {
  const [amount, setAmount] = useState<number | string>('')
  const [method, setMethod] = useState<CreditMethod>('grant')
  const [holdDays, setHoldDays] = useState<number | string>('')
  const body = { amount_usd: Number(amount), method, ...(holdDays !== '' && { hold_days: Number(holdDays) }) }
  const add = useAddCredit(id, body, () => {
    notifications.show({ title: 'Credits added', message: usd(Number(amount)) })
    onClose()
  })
  return (
    <OpenModal onClose={onClose} title="Add credits" centered>
      <Form mutation={add} submit="Add credits" disabled={!(Number(amount) > 0)}>
        <NumberInput
          label="Amount in USD"
          required
          min={0}
          max={1_000_000}
          decimalScale={9}
          prefix="$"
          thousandSeparator=","
          value={amount}
          onChange={setAmount}
          data-autofocus
        />
        <Select
          label="Method"
          data={methods}
          allowDeselect={false}
          value={method}
          onChange={value => value && setMethod(value as CreditMethod)}
        />
        <NumberInput
          label="Hold period (days)"
          description={`Included in the balance immediately, and available after the hold period. ${method === 'ach' ? `Default: ${achHoldDays} days, because ACH payments can be returned.` : 'Default: none.'}`}
          min={0}
          max={maxHoldDays}
          allowDecimal={false}
          value={holdDays}
          onChange={setHoldDays}
        />
      </Form>
    </OpenModal>
  )
}
