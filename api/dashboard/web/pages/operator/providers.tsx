import { Badge, Collapse, Group, Paper, Stack, Text, Title, UnstyledButton } from '@mantine/core'
import { IconChevronDown, IconChevronRight } from '@tabler/icons-react'
import { useId, useState } from 'react'
import type { Deployment, ProviderHealth } from '../../../wire/operator.ts'
import { Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { count, duration } from '../../format.ts'
import { useProviders } from './queries.ts'

const states: Record<ProviderHealth['state'], { label: string; color: string }> = {
  available: { label: 'available', color: 'green' },
  degraded: { label: 'degraded', color: 'yellow' },
  in_cooldown: { label: 'in cooldown', color: 'red' },
  not_configured: { label: 'not configured', color: 'gray' },
}

/** The health of each provider, across all processes. */
export function Providers() {
  const providers = useProviders()
  return (
    <Show query={providers}>
      {({ data }) => {
        const on = data.filter(({ state }) => state !== 'not_configured')
        const off = data.filter(({ state }) => state === 'not_configured')
        return (
          <Stack>
            <Text size="sm" c="dimmed">
              Calls of the last minutes, with a half-life of one minute. Three consecutive failures open a circuit;
              after its cooldown one probe is sent.
            </Text>
            {on.map(provider => (
              <Provider key={provider.name} provider={provider} />
            ))}
            {on.length === 0 && <Text size="sm">No provider is configured, so live keys cannot be served.</Text>}
            {off.length > 0 && <NotConfigured providers={off} />}
          </Stack>
        )
      }}
    </Show>
  )
}

function Provider({ provider }: { provider: ProviderHealth }) {
  const { name, deployments, state } = provider
  const [opened, setOpened] = useState(state !== 'available')
  const panel = useId()
  const Chevron = opened ? IconChevronDown : IconChevronRight
  const hasMore = deployments.length > 0
  return (
    <Paper withBorder p="sm">
      <UnstyledButton
        w="100%"
        disabled={!hasMore}
        aria-expanded={hasMore ? opened : undefined}
        aria-controls={hasMore ? panel : undefined}
        onClick={() => setOpened(!opened)}
      >
        <Group justify="space-between" gap="xs">
          <Group gap="xs">
            <Chevron size={16} aria-hidden style={{ visibility: hasMore ? 'visible' : 'hidden' }} />
            <Title order={3}>{name}</Title>
            <Badge color={states[state].color}>{states[state].label}</Badge>
          </Group>
          <Text size="sm" c="dimmed" className="numeric">
            {[keysText(provider), `${count(provider.models)} models`, callsText(provider)].join(' · ')}
          </Text>
        </Group>
      </UnstyledButton>
      <Collapse expanded={opened && hasMore} id={panel}>
        <DataTable
          label={`Models at ${name}`}
          rows={deployments}
          columns={deploymentColumns}
          rowKey={({ model }) => model}
          minWidth={640}
        />
      </Collapse>
    </Paper>
  )
}

function keysText({ credentials, credentials_in_cooldown: cooling }: ProviderHealth): string {
  if (credentials === 0) return 'no API key needed'
  const keys = credentials === 1 ? '1 API key' : `${credentials} API keys`
  return cooling === 0 ? keys : `${keys}, ${cooling} in cooldown`
}

function callsText({ calls, failed_calls: failed }: { calls: number; failed_calls: number }): string {
  if (calls < 1) return 'no calls'
  return `${count(Math.round(calls))} calls, ${Math.round((failed / calls) * 100)} % failed`
}

const deploymentColumns: Column<Deployment>[] = [
  { header: 'Model', kind: 'rowHeader', cell: ({ model }) => model },
  { header: 'Circuit', cell: deployment => <Circuit deployment={deployment} /> },
  { header: 'Calls', cell: callsText },
  { header: 'First byte', kind: 'number', cell: ({ first_byte_ms: ms }) => (ms === null ? '–' : duration(ms)) },
  {
    header: 'Speed',
    kind: 'number',
    cell: ({ tokens_per_second: speed }) => (speed === null ? '–' : `${speed} tokens/s`),
  },
]

function Circuit({ deployment: { circuit, cooldown_ms } }: { deployment: Deployment }) {
  return (
    <Group gap="xs">
      <Badge color={circuit === 'closed' ? 'green' : circuit === 'open' ? 'red' : 'yellow'}>
        {circuit.replace('_', ' ')}
      </Badge>
      {cooldown_ms > 0 && (
        <Text size="xs" c="dimmed">
          cooldown {duration(cooldown_ms)}
        </Text>
      )}
    </Group>
  )
}

function NotConfigured({ providers }: { providers: ProviderHealth[] }) {
  return (
    <Paper withBorder p="sm">
      <Title order={3} mb="xs">
        Not configured
      </Title>
      <Text size="sm" c="dimmed" mb="xs">
        To enable a provider, set its API key in the environment, for example{' '}
        <code>{providers[0]!.name.toUpperCase()}_API_KEY</code>.
      </Text>
      <Group gap={6}>
        {providers.map(({ name }) => (
          <Status key={name} value={name} variant="default" />
        ))}
      </Group>
    </Paper>
  )
}
