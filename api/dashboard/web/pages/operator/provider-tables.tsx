import { Badge, Text } from '@mantine/core'
import type { Deployment, ProviderKey } from '../../../wire/operator-home.ts'
import { Section } from '../../components/facts.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { duration } from '../../format.ts'
import { DeploymentBadge, errorText } from './provider-state.tsx'

const keyStates = {
  accepted: { label: 'accepted', color: 'green' },
  rate_limited: { label: 'rate limited', color: 'yellow' },
  refused: { label: 'refused', color: 'red' },
}

const keyColumns: Column<ProviderKey>[] = [
  {
    header: 'API key',
    kind: 'rowHeader',
    card: 'lead',
    cell: ({ label }) => <Text size="sm">{label}</Text>,
  },
  {
    header: 'State',
    card: 'aside',
    cell: ({ state, retry_in_ms: retryMs }) => (
      <>
        <Badge color={keyStates[state].color} miw="max-content">
          {keyStates[state].label}
        </Badge>
        {retryMs > 0 && (
          <Text size="xs" c="dimmed">
            retry in {duration(retryMs)}
          </Text>
        )}
      </>
    ),
  },
  {
    header: 'Last error',
    maxWidth: 480,
    card: 'line',
    cell: ({ last_error: error }) => (error ? errorText(error) : '–'),
  },
]

/** A provider’s API keys, as it treats them. */
export function Keys({ keys }: { keys: ProviderKey[] }) {
  if (keys.length === 0) return null
  return (
    <Section title="API keys">
      <DataTable label="API keys" rows={keys} columns={keyColumns} rowKey={({ id }) => id} minWidth={520} />
    </Section>
  )
}

const deploymentColumns: Column<Deployment>[] = [
  { header: 'Model', kind: 'rowHeader', card: 'lead', cell: ({ model }) => model },
  { header: 'State', card: 'aside', cell: deployment => <DeploymentBadge deployment={deployment} /> },
  {
    header: 'TTFT',
    kind: 'number',
    card: 'labelled',
    cell: ({ first_byte_ms: ms }) => (ms === null ? '–' : duration(ms)),
  },
  {
    header: 'Speed',
    kind: 'number',
    cell: ({ tokens_per_second: speed }) => (speed === null ? '–' : `${speed} tokens/s`),
  },
  {
    header: 'Last error',
    maxWidth: 400,
    card: 'line',
    cell: ({ last_error: error }) => (error ? errorText(error) : '–'),
  },
]

/** The models of a provider that were called lately, or failed. */
export function Deployments({ deployments }: { deployments: Deployment[] }) {
  if (deployments.length === 0) return null
  return (
    <Section title="Models called lately">
      <DataTable
        label="Models called lately"
        rows={deployments}
        columns={deploymentColumns}
        rowKey={({ model }) => model}
        minWidth={640}
      />
    </Section>
  )
}
