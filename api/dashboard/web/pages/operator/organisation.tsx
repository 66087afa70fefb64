import { Anchor, Breadcrumbs, Button, NumberInput, Select, SimpleGrid, Stack, Table, Text } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { IconPlus } from '@tabler/icons-react'
import { useState } from 'react'
import { Link } from 'wouter'
import type { Credit, CreditMethod, OrganisationDetail } from '../../../wire/operator.ts'
import { OpenModal } from '../../components/dialogs.tsx'
import { Facts, Section } from '../../components/facts.tsx'
import { Form } from '../../components/form.tsx'
import { Page } from '../../components/page.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Time } from '../../components/time.tsx'
import { count, moment, usd } from '../../format.ts'
import { Id } from '../work/parts.tsx'
import { ProvisioningKeys } from './provisioning.tsx'
import { useAddCredit, useOrganisation } from './queries.ts'

/** One organisation as an operator sees it. */
export function OrganisationPage({ id }: { id: string }) {
  const organisation = useOrganisation(id)
  const [crediting, setCrediting] = useState(false)
  const name = organisation.data?.name ?? 'Organisation'
  return (
    <Stack gap="sm">
      <Breadcrumbs>
        <Anchor component={Link} href="/operator" size="sm">
          Operator area
        </Anchor>
        <Text size="sm" truncate maw={{ base: 200, xs: 480 }}>
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
              ['Booked this month', usd(organisation.month_spend_usd)],
            ]}
          />
        </Section>
        <Section title="Facts">
          <Facts
            facts={[
              ['Id', <Id key="id" value={organisation.id} label="organisation id" />, 'wide'],
              ['Created', <Time key="created" at={organisation.created_at} />],
              ['Members', count(organisation.members)],
              ['Keys', count(organisation.keys)],
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

function Credits({ credits }: { credits: Credit[] }) {
  return (
    <Section title="Latest credits">
      {credits.length === 0 ? (
        <Empty title="No credits yet">Add some, so that live keys can be used.</Empty>
      ) : (
        <Table.ScrollContainer minWidth={380}>
          <Table>
            <Table.Thead>
              <Table.Tr>
                <Table.Th ta="right">Amount</Table.Th>
                <Table.Th>Method</Table.Th>
                <Table.Th>Booked</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {credits.map(({ id, amount_usd, method, available_at, created_at }) => (
                <Table.Tr key={id}>
                  <Table.Td ta="right" className="numeric">
                    {usd(amount_usd)}
                  </Table.Td>
                  <Table.Td>
                    {method ?? '–'}
                    {available_at !== null && (
                      <Text size="xs" c="dimmed">
                        {Date.parse(available_at) > Date.now() ? 'held until' : 'released'} {moment(available_at)}
                      </Text>
                    )}
                  </Table.Td>
                  <Table.Td style={{ whiteSpace: 'nowrap' }}>
                    <Time at={created_at} />
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Section>
  )
}

function Members({ people }: { people: OrganisationDetail['people'] }) {
  return (
    <Section title="Members">
      {people.length === 0 ? (
        <Empty title="Nobody is a member">It is used by keys alone.</Empty>
      ) : (
        <Table.ScrollContainer minWidth={320}>
          <Table>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Member</Table.Th>
                <Table.Th>Role</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {people.map(({ id, name, email, role }) => (
                <Table.Tr key={id}>
                  <Table.Td>
                    <Text size="sm">{name}</Text>
                    <Text size="xs" c="dimmed">
                      {email}
                    </Text>
                  </Table.Td>
                  <Table.Td>
                    <Status value={role} />
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Section>
  )
}

const methods: { value: CreditMethod; label: string }[] = [
  { value: 'grant', label: 'Grant' },
  { value: 'card', label: 'Paid by card' },
  { value: 'ach', label: 'Paid by ACH' },
]
const achHoldDays = 5
const mostHoldDays = 365

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
          label="Days on hold"
          description={`It counts at once and can be spent afterwards. ${method === 'ach' ? `${achHoldDays} days unless you say otherwise: ACH payments can be called back.` : 'None unless you say otherwise.'}`}
          min={0}
          max={mostHoldDays}
          allowDecimal={false}
          value={holdDays}
          onChange={setHoldDays}
        />
      </Form>
    </OpenModal>
  )
}
