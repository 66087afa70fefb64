import {
  Alert,
  Anchor,
  Badge,
  Breadcrumbs,
  Button,
  Group,
  NativeSelect,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
} from '@mantine/core'
import { IconPlayerPause, IconPlayerPlay, IconPlugConnected } from '@tabler/icons-react'
import { useState } from 'react'
import { Link } from 'wouter'
import type { Provider, ProviderTest } from '../../../wire/operator-home.ts'
import { Legend } from '../../components/charts/legend.tsx'
import { TimeChart } from '../../components/charts/time-chart.tsx'
import { OpenModal } from '../../components/dialogs.tsx'
import { Section } from '../../components/facts.tsx'
import { Form } from '../../components/form.tsx'
import { Page } from '../../components/page.tsx'
import { SpanPicker, type TimeQuery, useTime } from '../../components/span.tsx'
import { Empty, Failure, Show } from '../../components/states.tsx'
import { Together } from '../../components/together.tsx'
import { duration, moment, shortCount } from '../../format.ts'
import { ActivityCharts } from '../overview/health.tsx'
import { Affected } from './affected.tsx'
import {
  useAffected,
  usePause,
  useProvider,
  useProviderTest,
  useResume,
  useServiceActivity,
  useServiceUsage,
} from './home-queries.ts'
import { Incidents } from './incidents.tsx'
import { AddedKeys } from './provider-keys.tsx'
import { errorText, ProviderBadge } from './provider-state.tsx'
import { Deployments, Keys } from './provider-tables.tsx'

/** One provider: its history, its API keys, and what an operator can do about it. */
export function ProviderPage({ name }: { name: string }) {
  const provider = useProvider(name)
  const [pausing, setPausing] = useState(false)
  const [time, setTime] = useTime('24h')
  return (
    <Stack gap="sm">
      <Breadcrumbs>
        <Anchor component={Link} href="/operator/providers" size="sm">
          Providers
        </Anchor>
        <Text size="sm" lh={1.6}>
          {name}
        </Text>
      </Breadcrumbs>
      <Page
        title={name}
        actions={provider.data && <Actions provider={provider.data} onPause={() => setPausing(true)} />}
      >
        <Show query={provider}>
          {data => (
            <Together gap="md">
              <Now provider={data} />
              <Group justify="flex-end">
                <SpanPicker time={time} onChange={setTime} />
              </Group>
              <History name={name} time={time} />
              <Incidents provider={name} />
              <Failures name={name} time={time} />
              <Keys keys={data.keys} />
              {data.takes_keys && <AddedKeys provider={data} />}
              <Deployments deployments={data.deployments} />
            </Together>
          )}
        </Show>
      </Page>
      {pausing && provider.data && <Pausing provider={provider.data} onClose={() => setPausing(false)} />}
    </Stack>
  )
}

/** Whom it affected that requests failed here. */
function Failures({ name, time }: { name: string; time: TimeQuery }) {
  const affected = useAffected({ ...time, provider: name })
  return <Show query={affected}>{data => data.failed > 0 && <Affected affected={data} />}</Show>
}

function Actions({ provider: { name, state, pause }, onPause }: { provider: Provider; onPause: () => void }) {
  const resume = useResume(name)
  const test = useProviderTest(name)
  if (state === 'not_configured') return null
  return (
    <>
      <Button
        variant="default"
        leftSection={<IconPlugConnected size={16} aria-hidden />}
        loading={test.isPending}
        onClick={() => test.mutate()}
      >
        Test now
      </Button>
      {pause ? (
        <Button
          leftSection={<IconPlayerPlay size={16} aria-hidden />}
          loading={resume.isPending}
          onClick={() => resume.mutate()}
        >
          Resume
        </Button>
      ) : (
        <Button variant="default" leftSection={<IconPlayerPause size={16} aria-hidden />} onClick={onPause}>
          Pause
        </Button>
      )}
      {resume.error && <Failure error={resume.error} />}
      {test.error && <Failure error={test.error} />}
      {test.data && <TestResult result={test.data} onClose={test.reset} />}
    </>
  )
}

const outcomes = {
  accepted: { label: 'accepted', color: 'green' },
  failed: { label: 'failed', color: 'red' },
  unknown: { label: 'not checked', color: 'gray' },
}

function TestResult({ result: { data, duration_ms }, onClose }: { result: ProviderTest; onClose: () => void }) {
  return (
    <OpenModal onClose={onClose} title="Test result" centered>
      <Stack>
        <Text size="sm" c="dimmed">
          The provider answered within {duration(duration_ms)}. The request costs nothing; it does not call a model.
        </Text>
        {data.map(({ key, outcome, reason }) => (
          <Group key={key} gap="xs">
            <Badge color={outcomes[outcome].color}>{outcomes[outcome].label}</Badge>
            <Text size="sm">
              API key <code>{key}</code>
            </Text>
            {outcome === 'unknown' && (
              <Text size="xs" c="dimmed">
                This provider has no free request to check it with.
              </Text>
            )}
            {reason !== null && <Text size="sm">{reason}</Text>}
          </Group>
        ))}
      </Stack>
    </OpenModal>
  )
}

/** The state now, and the last error. */
function Now({ provider: { state, pause, last_error: error } }: { provider: Provider }) {
  return (
    <Stack gap="xs">
      <Group gap="sm">
        <ProviderBadge state={state} />
        {error?.failing_since && (
          <Text size="sm">
            {error.model === null ? 'Every call with one API key' : `Every call of ${error.model}`} since{' '}
            {moment(error.failing_since)} failed
            {error.failures > 1 && ` (${error.failures} in a row)`}.{' '}
            {pause ? 'It is not probed while it is paused.' : 'The next request probes it.'}
          </Text>
        )}
      </Group>
      {pause && (
        <Alert color="gray" variant="light" title="Paused: it gets no new calls and is not probed">
          Paused by {pause.by}, {moment(pause.at)},{' '}
          {pause.until === null ? 'until an operator resumes it' : `until ${moment(pause.until)}`}. {pause.reason ?? ''}
        </Alert>
      )}
      {error && (
        <Alert color={error.failing_since ? 'red' : 'gray'} variant="light" title={`Last error, ${moment(error.at)}`}>
          {error.model !== null && `${error.model}, `}
          {errorText(error)}
        </Alert>
      )}
    </Stack>
  )
}

const palette = ['water.5', 'violet.5', 'orange.5', 'lime.6', 'pink.5', 'cyan.6', 'yellow.5', 'grape.5']

function History({ name, time }: { name: string; time: TimeQuery }) {
  const activity = useServiceActivity({ ...time, provider: name })
  const requests = useServiceUsage({ ...time, provider: name, by: 'model', measure: 'requests' })
  const errors = useServiceUsage({ ...time, provider: name, by: 'model', measure: 'errors' })
  return (
    <Show query={activity}>
      {data =>
        data.total.requests === 0 ? (
          <Section title="History">
            <Empty title="No requests in this period">Requests that end at this provider appear here.</Empty>
          </Section>
        ) : (
          <>
            <ActivityCharts activity={data} />
            <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
              <ByModel title="Requests by model" query={requests} />
              <ByModel title="Errors by model" query={errors} />
            </SimpleGrid>
          </>
        )
      }
    </Show>
  )
}

function ByModel({ title, query }: { title: string; query: ReturnType<typeof useServiceUsage> }) {
  return (
    <Section title={title}>
      <Show query={query}>
        {({ times, step_ms: stepMs, series, total }) => {
          const drawn = series.map(({ id, name, values }, i) => ({
            name,
            values,
            color: id === null ? 'gray.5' : palette[i % palette.length]!,
          }))
          if (series.length === 0) return <Empty title="None in this period" />
          return (
            <Stack gap="xs">
              <TimeChart
                kind="bars"
                label={`${title} over time, ${shortCount(total)} in total`}
                times={times}
                stepMs={stepMs}
                series={drawn}
                text={shortCount}
              />
              <Legend
                entries={series.map(({ total: own }, i) => ({
                  name: drawn[i]!.name,
                  color: drawn[i]!.color,
                  value: shortCount(own),
                }))}
              />
            </Stack>
          )
        }}
      </Show>
    </Section>
  )
}

const durations = [
  { value: '', label: 'Until it is resumed' },
  { value: '0.25', label: '15 minutes' },
  { value: '1', label: '1 hour' },
  { value: '4', label: '4 hours' },
  { value: '24', label: '1 day' },
  { value: '168', label: '7 days' },
]

function Pausing({ provider, onClose }: { provider: Provider; onClose: () => void }) {
  const { name, only_provider_of: only, only_provider_count: onlyCount } = provider
  const [reason, setReason] = useState('')
  const [hours, setHours] = useState('')
  const pause = usePause(name, { reason, hours: hours === '' ? null : Number(hours) }, onClose)
  return (
    <OpenModal onClose={onClose} title={`Pause ${name}?`} centered>
      <Form mutation={pause} submit="Pause provider">
        <Text size="sm">
          It gets no new calls, from no process, until then. Calls, jobs and batches that it already runs finish.
        </Text>
        {onlyCount === 0 ? (
          <Text size="sm">Every model that it serves has another provider.</Text>
        ) : (
          <Alert
            color="yellow"
            variant="light"
            title={`${onlyCount === 1 ? 'One model loses its' : `${onlyCount} models lose their`} only provider`}
          >
            Requests for {onlyCount === 1 ? 'it' : 'them'} are refused with 503: {only.join(', ')}
            {onlyCount > only.length && ` and ${onlyCount - only.length} more`}.
          </Alert>
        )}
        <NativeSelect
          label="For how long"
          data={durations}
          value={hours}
          onChange={event => setHours(event.currentTarget.value)}
        />
        <TextInput
          label="Reason"
          maxLength={200}
          value={reason}
          onChange={event => setReason(event.currentTarget.value)}
          data-autofocus
        />
      </Form>
    </OpenModal>
  )
}
