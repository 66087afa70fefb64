import { Anchor, SimpleGrid } from '@mantine/core'
import { Link } from 'wouter'
import type { Affected as AffectedAnswer } from '../../../wire/operator-home.ts'
import { Section } from '../../components/facts.tsx'
import { Empty } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { count, percent } from '../../format.ts'

/** Whose requests failed at a provider: at most 20 organisations and 20 API keys, the largest first. */
export function Affected({ affected }: { affected: AffectedAnswer }) {
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
      <Section title="Affected organisations">
        <DataTable
          label="Affected organisations"
          rows={affected.organisations}
          columns={[
            {
              header: 'Organisation',
              kind: 'rowHeader',
              cell: ({ id, name }) => (
                <Anchor component={Link} href={`/operator/organisations/${id}`} size="sm">
                  {name}
                </Anchor>
              ),
            },
            ...figures,
          ]}
          rowKey={({ id }) => id}
          empty={<Empty title="No request failed" />}
        />
      </Section>
      <Section title="Affected API keys">
        <DataTable
          label="Affected API keys"
          rows={affected.keys}
          columns={[
            {
              header: 'API key',
              kind: 'rowHeader',
              cell: ({ name, last4, organisation_id }) => (
                <Anchor component={Link} href={`/operator/organisations/${organisation_id}/keys`} size="sm">
                  {name} (…{last4})
                </Anchor>
              ),
            },
            ...figures,
          ]}
          rowKey={({ id }) => id}
          empty={<Empty title="No request failed" />}
        />
      </Section>
    </SimpleGrid>
  )
}

const figures: Column<{ requests: number; failed: number; share: number }>[] = [
  { header: 'Failed', kind: 'number', cell: ({ failed }) => count(failed) },
  { header: 'Requests', kind: 'number', cell: ({ requests }) => count(requests) },
  { header: 'Share of failures', kind: 'number', cell: ({ share }) => percent(share) },
]
