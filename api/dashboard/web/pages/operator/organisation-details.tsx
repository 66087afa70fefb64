import { Button, SimpleGrid, Stack, Text } from '@mantine/core'
import { IconPlus } from '@tabler/icons-react'
import { useState } from 'react'
import type { OrganisationDetail } from '../../../wire/operator.ts'
import { Facts, Section } from '../../components/facts.tsx'
import { Page } from '../../components/page.tsx'
import { Empty } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { Id } from '../../components/work/parts.tsx'
import { count, moment, usd } from '../../format.ts'
import { Adjusting, Crediting, Credits } from './balance.tsx'
import { ProvisioningKeys } from './provisioning.tsx'
import { useSuspendOrganisation } from './queries.ts'
import { organisationSubject, SuspensionAlert, SuspensionDialog } from './suspension.tsx'

/** What an operator knows of an organisation and may change: its wallet, provisioning keys, suspension. */
export function OrganisationDetails({ organisation }: { organisation: OrganisationDetail }) {
  const { id, name, suspension } = organisation
  const [dialog, setDialog] = useState<'credit' | 'adjustment' | 'suspension' | null>(null)
  const close = () => setDialog(null)
  const suspend = useSuspendOrganisation(id, close)
  return (
    <Page
      title={name}
      actions={
        <>
          <Button variant="default" onClick={() => setDialog('suspension')}>
            {suspension ? 'Resume' : 'Suspend'}
          </Button>
          <Button variant="default" onClick={() => setDialog('adjustment')}>
            Adjust balance
          </Button>
          <Button leftSection={<IconPlus size={16} aria-hidden />} onClick={() => setDialog('credit')}>
            Add credits
          </Button>
        </>
      }
    >
      <Details organisation={organisation} />
      {dialog === 'credit' && <Crediting id={id} onClose={close} />}
      {dialog === 'adjustment' && <Adjusting id={id} onClose={close} />}
      {dialog === 'suspension' && (
        <SuspensionDialog
          subject={organisationSubject(name)}
          suspension={suspension}
          change={suspend}
          onClose={close}
        />
      )}
    </Page>
  )
}

function Details({ organisation }: { organisation: OrganisationDetail }) {
  const { available_usd, reserved_usd, held_usd, held_release_at } = organisation
  const held = held_release_at === null ? usd(held_usd) : `${usd(held_usd)}, next release ${moment(held_release_at)}`
  return (
    <Stack>
      {organisation.suspension && <SuspensionAlert suspension={organisation.suspension} />}
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
