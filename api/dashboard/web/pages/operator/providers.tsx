import { Badge, Collapse, Group, Paper, Stack, Table, Text, Title, UnstyledButton } from '@mantine/core'
import { IconChevronDown, IconChevronRight } from '@tabler/icons-react'
import { useId, useState } from 'react'
import type { Deployment, ProviderHealth } from '../../../wire/operator.ts'
import { Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { count, duration } from '../../format.ts'
import { useProviders } from './queries.ts'

const states: Record<ProviderHealth['state'], { label: string; color: string }> = {
  available: { label: 'available', color: 'green' },
  degraded: { label: 'degraded', color: 'yellow' },
  resting: { label: 'not called now', color: 'red' },
  not_configured: { label: 'not configured', color: 'gray' },
}

/** How each provider fares, as all processes see it together. */
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
              Calls of the last minutes: each counts half after a minute. Three failures in a row open a circuit; after
              the pause one call tries again.
            </Text>
            {on.map(provider => (
              <Provider key={provider.name} provider={provider} />
            ))}
            {on.length === 0 && <Text size="sm">No provider is configured: live keys cannot be served.</Text>}
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
        <Deployments deployments={deployments} name={name} />
      </Collapse>
    </Paper>
  )
}

function keysText({ credentials, resting_credentials: resting }: ProviderHealth): string {
  if (credentials === 0) return 'no API key needed'
  const keys = credentials === 1 ? '1 API key' : `${credentials} API keys`
  return resting === 0 ? keys : `${keys}, ${resting} resting`
}

function callsText({ calls, failed_calls: failed }: { calls: number; failed_calls: number }): string {
  if (calls < 1) return 'no calls'
  return `${count(Math.round(calls))} calls, ${Math.round((failed / calls) * 100)} % failed`
}

function Deployments({ deployments, name }: { deployments: Deployment[]; name: string }) {
  return (
    <Table.ScrollContainer minWidth={640}>
      <Table captionSide="top">
        <Table.Caption className="visually-hidden">Models at {name}</Table.Caption>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Model</Table.Th>
            <Table.Th>Circuit</Table.Th>
            <Table.Th>Calls</Table.Th>
            <Table.Th ta="right">First byte</Table.Th>
            <Table.Th ta="right">Speed</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {deployments.map(deployment => (
            <Table.Tr key={deployment.model}>
              <Table.Td>{deployment.model}</Table.Td>
              <Table.Td>
                <Circuit deployment={deployment} />
              </Table.Td>
              <Table.Td className="numeric">{callsText(deployment)}</Table.Td>
              <Table.Td ta="right" className="numeric">
                {deployment.first_byte_ms === null ? '–' : duration(deployment.first_byte_ms)}
              </Table.Td>
              <Table.Td ta="right" className="numeric">
                {deployment.tokens_per_second === null ? '–' : `${deployment.tokens_per_second} tokens/s`}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  )
}

function Circuit({ deployment: { circuit, rest_ms } }: { deployment: Deployment }) {
  return (
    <Group gap="xs">
      <Badge color={circuit === 'closed' ? 'green' : circuit === 'open' ? 'red' : 'yellow'}>
        {circuit.replace('_', ' ')}
      </Badge>
      {rest_ms > 0 && (
        <Text size="xs" c="dimmed">
          rests for {duration(rest_ms)}
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
        Set its API key in the environment, for example <code>{providers[0]!.name.toUpperCase()}_API_KEY</code>, to
        switch a provider on.
      </Text>
      <Group gap={6}>
        {providers.map(({ name }) => (
          <Status key={name} value={name} variant="default" />
        ))}
      </Group>
    </Paper>
  )
}
