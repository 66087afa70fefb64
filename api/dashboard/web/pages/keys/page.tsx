import { Button, Group, Stack, Tabs, Text } from '@mantine/core'
import { useState } from 'react'
import { Link, Redirect } from 'wouter'
import type { DashboardKey, KeySecretAnswer } from '../../../wire/keys.ts'
import { useModels } from '../../catalog.ts'
import { Snippets } from '../../components/copy.tsx'
import { type Fact, Facts, Section } from '../../components/facts.tsx'
import { useFilter } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { PageLink } from '../../components/page-link.tsx'
import { SpanPicker, useTime } from '../../components/span.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { PagedTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { Trail } from '../../components/work/parts.tsx'
import { count, moment, percent, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { auditColumns, useAudit } from '../audit/list.tsx'
import { Health } from '../overview/health.tsx'
import { Tiles } from '../overview/tiles.tsx'
import { requestsHref, useActivity } from '../usage/queries.ts'
import { SeriesChart, usualMeasure } from '../usage/series-chart.tsx'
import { KeyActions, KeyDrawer } from './edit.tsx'
import { guardrailWords } from './guardrail-fields.tsx'
import { KeyState } from './key-state.tsx'
import { KeyLogging } from './logging.tsx'
import { useKey } from './queries.ts'
import { SecretDialog } from './secret.tsx'
import { snippetsOf } from './snippets.ts'
import { Spend } from './spend.tsx'

/** One API key: what it was used for, what it may do, and its history. */
export function KeyPage({ name }: { name: string }) {
  const { home, isOperatorView } = usePlace()
  const { search, hash: anchor } = window.location
  const key = useKey(name)
  const [isEditing, setEditing] = useState(false)
  const [rolled, setRolled] = useState<KeySecretAnswer | null>(null)
  const close = () => {
    setEditing(false)
    setRolled(null)
  }
  // Addresses once had the hash of the secret, which every roll replaces.
  if (key.data && key.data.id !== name) return <Redirect to={`${home}/keys/${key.data.id}${search}${anchor}`} replace />
  return (
    <Stack gap="sm">
      <Trail href={`${home}/keys`} list="API keys">
        {key.data ? `${key.data.prefix}…${key.data.last4}` : name.slice(0, 8)}
      </Trail>
      <Page
        title={key.data?.name ?? 'API key'}
        description={
          key.data && (
            <Group gap="xs">
              <KeyState apiKey={key.data} />
              <Status value={key.data.environment} />
            </Group>
          )
        }
        actions={
          key.data && (
            <>
              <Button
                component={Link}
                variant="default"
                href={requestsHref(home, { key: key.data.id, environment: key.data.environment })}
              >
                Requests
              </Button>
              {!isOperatorView && key.data.may_manage && (
                <KeyActions apiKey={key.data} onRolled={setRolled} onDone={() => {}} />
              )}
              {!isOperatorView && (
                <Button onClick={() => setEditing(true)}>{key.data.may_manage ? 'Edit' : 'Policy'}</Button>
              )}
            </>
          )
        }
      >
        <Show query={key}>{data => <KeyTabs apiKey={data} />}</Show>
      </Page>
      {isEditing && <KeyDrawer name={name} onRolled={setRolled} onClose={() => setEditing(false)} />}
      {rolled && <SecretDialog answer={rolled} onClose={close} />}
    </Stack>
  )
}

function KeyTabs({ apiKey }: { apiKey: DashboardKey }) {
  const { may, isOperatorView } = usePlace()
  const hasHistory = may('manage') || isOperatorView
  const [tab, setTab] = useFilter('tab')
  return (
    <Tabs value={tab || 'usage'} onChange={value => setTab(value === 'usage' ? '' : (value ?? ''))} keepMounted={false}>
      <Tabs.List mb="md">
        <Tabs.Tab value="usage">Usage</Tabs.Tab>
        <Tabs.Tab value="policy">Policy</Tabs.Tab>
        {!isOperatorView && <Tabs.Tab value="code">Code</Tabs.Tab>}
        {may('manage') && <Tabs.Tab value="logging">Logging</Tabs.Tab>}
        {hasHistory && <Tabs.Tab value="history">History</Tabs.Tab>}
      </Tabs.List>
      <Tabs.Panel value="usage">
        <KeyUsage apiKey={apiKey} />
      </Tabs.Panel>
      <Tabs.Panel value="policy">
        <Section title="Policy">
          <Facts facts={policyOf(apiKey)} />
        </Section>
      </Tabs.Panel>
      <Tabs.Panel value="code">
        <KeyCode apiKey={apiKey} />
      </Tabs.Panel>
      {may('manage') && (
        <Tabs.Panel value="logging">
          <KeyLogging apiKey={apiKey} />
        </Tabs.Panel>
      )}
      {hasHistory && (
        <Tabs.Panel value="history">
          <History apiKey={apiKey} />
        </Tabs.Panel>
      )}
    </Tabs>
  )
}

/** Requests to begin with. The secret is not shown again, so it is to be filled in. */
function KeyCode({ apiKey }: { apiKey: DashboardKey }) {
  const models = useModels().data ?? []
  return (
    <Section title="Code">
      <Text size="sm" c="dimmed" mb="xs">
        Replace {apiKey.prefix}… with the secret of this key. It was shown when the key was created or last rolled; if
        it is lost, roll the key.
      </Text>
      <Snippets snippets={snippetsOf(apiKey, `${apiKey.prefix}…`, models)} />
    </Section>
  )
}

function KeyUsage({ apiKey }: { apiKey: DashboardKey }) {
  const { id, environment } = apiKey
  const [time, setTime] = useTime('7d')
  const choice = { ...time, environment, key: id }
  const activity = useActivity(choice)
  return (
    <Stack>
      <Group justify="space-between" align="flex-end">
        <div>
          <Text size="xs" c="dimmed">
            Spend this month
          </Text>
          <Spend {...apiKey} />
        </div>
        <SpanPicker time={time} onChange={setTime} />
      </Group>
      <Show query={activity} rows={4}>
        {data =>
          data.total.requests === 0 ? (
            <Empty title="No requests in this period">Requests appear here when they end.</Empty>
          ) : (
            <>
              <Tiles activity={data} keyId={id} />
              <Health activity={data} keyId={id} />
              <SeriesChart choice={choice} usual={usualMeasure(data)} />
            </>
          )
        }
      </Show>
    </Stack>
  )
}

function policyOf(key: DashboardKey): (Fact | null)[] {
  return [
    ['Routing mode', key.mode],
    ['Spend this month', <Spend key="spend" {...key} />],
    ['Monthly cap', key.monthly_spend_cap_usd === null ? 'none' : usd(key.monthly_spend_cap_usd)],
    ['Requests per minute', key.rpm_limit === null ? 'no limit' : count(key.rpm_limit)],
    ['Tokens per minute', key.tpm_limit === null ? 'no limit' : count(key.tpm_limit)],
    ['Endpoints', key.scopes === '*' ? 'all' : key.scopes.replaceAll(',', ', ')],
    ['Learns from feedback', key.learning ? 'yes' : 'no'],
    key.own_keys === 'shared'
      ? null
      : ['Provider keys', key.own_keys === 'own' ? 'own only' : 'own, then those of this service'],
    key.denied_service_tiers === null ? null : ['Refused service tiers', key.denied_service_tiers.join(', ')],
    key.provider === null ? null : ['Providers', JSON.stringify(key.provider), 'wide'],
    key.cache === null ? null : ['Response cache', `${count(key.cache.ttl_s)} s`],
    key.guardrails === null ? null : ['Guardrails', guardrailWords(key.guardrails), 'wide'],
    ['Input and output', loggingWords(key.content_logging)],
    key.previous_secret_valid_until === null
      ? null
      : ['Old secret', `…${key.previous_secret_last4} works until ${moment(key.previous_secret_valid_until)}`],
    ['Expires', key.expires_at === null ? 'never' : moment(key.expires_at)],
    key.cache_hit_share === null ? null : ['Cache hits this month', `${percent(key.cache_hit_share)} of input tokens`],
    ['Last used', <Time key="used" at={key.last_used_at} />],
    ['Created', `${moment(key.created_at)}${key.created_by === null ? '' : ` by ${key.created_by}`}`],
    ['Models', <Models key="models" models={key.model_allowlist} />, 'wide'],
  ]
}

/** Everybody who uses a key may know what of its requests is logged. */
function loggingWords(setting: DashboardKey['content_logging']): string {
  if (setting === null) return 'as the organisation says'
  const { mode, sample_percent: percentOf, until } = setting
  if (mode === 'off' || until === null || Date.parse(until) <= Date.now()) return 'not logged'
  const which = { errors: 'of failed requests', all: 'of all requests', sample: `of ${percentOf} % of requests` }[mode]
  return `logged ${which} until ${moment(until)}`
}

function Models({ models }: { models: string[] | null }) {
  if (models === null) return 'all'
  return (
    <Group gap="xs">
      {models.map(model => (
        <PageLink key={model} to={`models/${model}`}>
          {model}
        </PageLink>
      ))}
    </Group>
  )
}

/** The audit log's entries of a key. */
function History({ apiKey: { id } }: { apiKey: DashboardKey }) {
  const events = useAudit({ target: id })
  return (
    <PagedTable
      label="History"
      query={events}
      columns={auditColumns}
      rowKey={event => event.id}
      minWidth={760}
      empty={
        <Text size="sm" c="dimmed">
          There are no entries about this key.
        </Text>
      }
    />
  )
}
