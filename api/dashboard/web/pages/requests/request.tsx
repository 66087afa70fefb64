import { Alert, Anchor, Code, SimpleGrid, Stack, Text } from '@mantine/core'
import type { ReactNode } from 'react'
import { Link } from 'wouter'
import type { WorkDelivery } from '../../../wire/jobs.ts'
import type { RequestDetail } from '../../../wire/requests.ts'
import { ErrorDocs } from '../../components/error-docs.tsx'
import { type Fact, Facts, Section } from '../../components/facts.tsx'
import { PageLink } from '../../components/page-link.tsx'
import { WithCode } from '../../components/with-code.tsx'
import { Id, KeyName } from '../../components/work/parts.tsx'
import { count, duration, exactUsd, moment } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { requestsHref } from '../usage/queries.ts'
import { adviceFor } from './advice.ts'
import { namedModel } from './body.ts'
import { Calls } from './calls.tsx'
import { Cost } from './cost.tsx'
import { Guardrails } from './guardrails.tsx'
import { Routing } from './routing.tsx'
import { Scores } from './scores.tsx'

/** Everything about one request. `isNarrow`: one column, as beside a list. `children`: what only its page has. */
export function Request({
  request,
  isNarrow = false,
  children,
}: {
  request: RequestDetail
  isNarrow?: boolean
  children?: ReactNode
}) {
  return (
    <Stack>
      <Failure request={request} />
      <SimpleGrid cols={isNarrow ? 1 : { base: 1, lg: 2 }} spacing="md">
        <Calls request={request} />
        <Section title="Details">
          <Details request={request} />
        </Section>
        <Cost request={request} />
        <Section title="IDs">
          <Ids request={request} />
        </Section>
        <Asked request={request} />
      </SimpleGrid>
      <Routing request={request} />
      <Guardrails request={request} />
      {children}
      <Scores request={request} />
    </Stack>
  )
}

/** What the caller of a failed request was told, and what to do. */
function Failure({ request }: { request: RequestDetail }) {
  const { home, has } = usePlace()
  const { error_code: code, error_message: message, error_param: param, count: calls } = request
  if (message === null) return null
  const advice = adviceFor(code, message, namedModel(request) === 'auto')
  return (
    <Alert color="red" title="What went wrong">
      <WithCode>{message}</WithCode>
      {calls > 1 && (
        <Text size="sm" mt={4}>
          {count(calls)} calls of this key were refused for this reason within a minute. This is the first.
        </Text>
      )}
      {advice && (
        <Text size="sm" mt={4}>
          <b>What to do:</b> <WithCode>{advice.text}</WithCode>{' '}
          {advice.page !== undefined && has(advice.page) && (
            <Anchor component={Link} href={`${home}/${advice.page}`} inherit>
              Open {advice.page}
            </Anchor>
          )}
        </Text>
      )}
      <Text size="xs" mt={4}>
        <Code>{code}</Code>
        {param !== null && (
          <>
            {' '}
            at <Code>{param}</Code>
          </>
        )}
        {code !== null && (
          <>
            {' · '}
            <ErrorDocs code={code} />
          </>
        )}
      </Text>
    </Alert>
  )
}

function Details({ request }: { request: RequestDetail }) {
  const { end_user: endUser, session, model } = request
  const facts: (Fact | null)[] = [
    ['Time', moment(request.created_at)],
    [
      'Model',
      model === '' ? (
        'none'
      ) : (
        <PageLink key="model" to={`models/${model}`}>
          {model}
        </PageLink>
      ),
    ],
    ['Provider', request.provider ?? 'none'],
    providerKeyOf(request),
    request.response_cache === null ? null : ['Response cache', cacheWords[request.response_cache]],
    ['Key', <KeyLink key="key" request={request} />],
    request.mode === null ? null : ['Mode', request.mode],
    ['Cost', exactUsd(request.cost_usd)],
    request.upstream_inference_cost === null
      ? null
      : ['Cost at the provider', exactUsd(request.upstream_inference_cost)],
    ['Duration', duration(request.duration_ms)],
    request.first_byte_ms === null ? null : ['TTFT', duration(request.first_byte_ms)],
    ['Streaming', request.streamed ? 'yes' : 'no'],
    request.finish_reason === null ? null : ['Finish reason', request.finish_reason],
    endUser === null ? null : ['End user', <Same key="user" name="end_user" value={endUser} />],
    session === null ? null : ['Session', <Same key="session" name="session" value={session} />],
    request.job_id === null ? null : ['Job', <Work key="job" sort="jobs" id={request.job_id} />],
    request.delivery === null ? null : ['Webhook', <Delivery key="webhook" delivery={request.delivery} />],
    request.batch_id === null ? null : ['Batch', <Work key="batch" sort="batches" id={request.batch_id} />],
  ]
  return <Facts facts={facts} />
}

const cacheWords: Record<NonNullable<RequestDetail['response_cache']>, string> = {
  hit: 'hit: answered from the cache, free',
  stored: 'miss: the answer was stored for equal requests',
  miss: 'miss: the answer was not stored',
  bypass: 'bypassed',
}

/** Whose provider key a live call used. */
function providerKeyOf({ environment, attempts, is_byok, provider_key: own }: RequestDetail): Fact | null {
  if (is_byok) return ['Provider key', own === null ? 'own key, deleted since' : `own: ${own.name} (…${own.last4})`]
  return environment === 'live' && attempts > 0 ? ['Provider key', 'of this service'] : null
}

function KeyLink({ request: { key, key_id: id } }: { request: RequestDetail }) {
  const { home } = usePlace()
  if (id === null) return <KeyName value={key} />
  return (
    <Anchor component={Link} href={`${home}/keys/${id}`} inherit>
      <KeyName value={key} />
    </Anchor>
  )
}

function Delivery({ delivery: { id, status, attempts } }: { delivery: WorkDelivery }) {
  return (
    <PageLink to={`webhooks?delivery=${id}`}>
      {status}, {attempts} {attempts === 1 ? 'attempt' : 'attempts'}
    </PageLink>
  )
}

/** A value with a link to the requests that have the same. */
function Same({ name, value }: { name: string; value: string }) {
  const { home } = usePlace()
  return (
    <Anchor component={Link} href={requestsHref(home, { [name]: value })} inherit>
      {value}
    </Anchor>
  )
}

/** The settings and metadata that the request named. */
function Asked({ request: { parameters, metadata } }: { request: RequestDetail }) {
  const entries = [...Object.entries(parameters ?? {}), ...Object.entries(metadata ?? {}).map(named)]
  if (entries.length === 0) return null
  return (
    <Section title="Parameters">
      <Facts facts={entries.map(([name, value]) => [name, String(value)])} />
    </Section>
  )
}

const named = ([name, value]: [string, string]) => [`metadata.${name}`, value] as const

function Ids({ request }: { request: RequestDetail }) {
  const ids = [
    { name: 'Generation', label: 'generation ID', value: request.id },
    { name: 'Request', label: 'request ID', value: request.request_id },
    { name: 'Provider’s ID', label: 'provider’s ID', value: request.upstream_id },
  ]
  return (
    <Stack component="dl" gap="sm" m={0}>
      {ids.map(({ name, label, value }) => (
        <div key={name}>
          <Text component="dt" size="xs" c="dimmed">
            {name}
          </Text>
          <Text component="dd" size="sm" m={0}>
            {value === null ? '–' : <Id value={value} label={label} />}
          </Text>
        </div>
      ))}
    </Stack>
  )
}

/** A link to the job or batch of a request. */
function Work({ sort, id }: { sort: 'jobs' | 'batches'; id: string }) {
  return (
    <PageLink to={`${sort}/${id}`}>
      <Text span inherit ff="monospace">
        {id}
      </Text>
    </PageLink>
  )
}
