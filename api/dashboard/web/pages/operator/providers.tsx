import { Anchor, Box, Group, Paper, Stack, Text, Title } from '@mantine/core'
import { Link } from 'wouter'
import type { Provider } from '../../../wire/operator-home.ts'
import { Sparkline } from '../../components/charts/sparkline.tsx'
import { colorVariable } from '../../components/charts/time-chart.tsx'
import { Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { count, percent } from '../../format.ts'
import { timeOf } from '../overview/tiles.tsx'
import { useProviders } from './home-queries.ts'
import { errorText, ProviderBadge } from './provider-state.tsx'

/** The providers and how they do, worst first. */
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
              Worst first. Figures are those of live requests that ended at the provider within 24 hours.
            </Text>
            <DataTable
              label="Providers"
              rows={on}
              columns={columns}
              rowKey={({ name }) => name}
              minWidth={820}
              empty={<Text size="sm">No provider is configured, so live keys cannot be served.</Text>}
            />
            {off.length > 0 && <NotConfigured providers={off} />}
          </Stack>
        )
      }}
    </Show>
  )
}

const columns: Column<Provider>[] = [
  {
    header: 'Provider',
    card: 'lead',
    kind: 'rowHeader',
    maxWidth: 380,
    cell: provider => (
      <>
        <Anchor component={Link} href={`/operator/providers/${provider.name}`} size="sm" fw={500}>
          {provider.name}
        </Anchor>
        <Text size="xs" c="dimmed" lineClamp={2}>
          {noteOf(provider)}
        </Text>
      </>
    ),
  },
  { header: 'State', card: 'aside', cell: ({ state }) => <ProviderBadge state={state} /> },
  {
    header: 'Success, 24 h',
    card: 'labelled',
    width: 150,
    cell: ({ day }) =>
      day === null ? (
        <Text size="xs" c="dimmed">
          no calls
        </Text>
      ) : (
        <Box w={130}>
          <Text size="xs">{percent(1 - day.failed / day.requests)}</Text>
          <Sparkline values={day.success} color={colorVariable(day.failed > 0 ? 'orange.5' : 'teal.5')} />
        </Box>
      ),
  },
  { header: 'Requests', card: 'labelled', kind: 'number', cell: ({ day }) => count(day?.requests ?? 0) },
  { header: 'p50', kind: 'number', cell: ({ day }) => timeOf(day?.latency_p50_ms ?? null) },
  { header: 'p95', card: 'labelled', kind: 'number', cell: ({ day }) => timeOf(day?.latency_p95_ms ?? null) },
  { header: '429', card: 'labelled', kind: 'number', cell: ({ day }) => count(day?.rate_limited ?? 0) },
]

function noteOf({ pause, last_error: error, keys, models, state }: Provider): string {
  if (pause) return `Paused by ${pause.by}${pause.reason ? `: ${pause.reason}` : ''}`
  if (error && state !== 'healthy') return errorText(error)
  const shown = keys.length === 0 ? 'no API key needed' : keys.length === 1 ? '1 API key' : `${keys.length} API keys`
  return `${shown} · ${models === 1 ? '1 model' : `${count(models)} models`}`
}

function NotConfigured({ providers }: { providers: Provider[] }) {
  return (
    <Paper withBorder p="sm">
      <Title order={2} size="h3" mb="xs">
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
