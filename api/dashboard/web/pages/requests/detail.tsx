import { Alert, Anchor, Code, Group, SimpleGrid, Stack, Text } from '@mantine/core'
import { Link } from 'wouter'
import type { RequestDetail } from '../../../wire/requests.ts'
import { type Fact, Facts, Section } from '../../components/facts.tsx'
import { Page } from '../../components/page.tsx'
import { Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Id, KeyName, Trail } from '../../components/work/parts.tsx'
import { count, duration, moment, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { Calls } from './calls.tsx'
import { Cost } from './cost.tsx'
import { Outcome } from './outcome.tsx'
import { useRequest } from './queries.ts'
import { Routing } from './routing.tsx'
import { Scores } from './scores.tsx'
import { typeName } from './types.ts'

/** One entry of the request log. */
export function RequestPage({ id }: { id: string }) {
  const { home } = usePlace()
  const request = useRequest(id)
  return (
    <Stack gap="sm">
      <Trail href={`${home}/requests`} list="Requests">
        {id}
      </Trail>
      <Page
        id={id}
        title={request.data ? `${typeName(request.data.type)} request` : 'Request'}
        description={
          request.data && (
            <Group gap="xs">
              <Outcome status={request.data.status} />
              <Status value={request.data.environment} />
              {request.data.model || 'no model'}
            </Group>
          )
        }
      >
        <Show query={request}>{data => <Request request={data} />}</Show>
      </Page>
    </Stack>
  )
}

function Request({ request }: { request: RequestDetail }) {
  return (
    <Stack>
      <Failure request={request} />
      <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
        <Section title="Details">
          <Facts facts={factsOf(request)} />
        </Section>
        <Section title="IDs">
          <Ids request={request} />
        </Section>
        <Calls request={request} />
        <Cost request={request} />
      </SimpleGrid>
      <Routing request={request} />
      <Scores request={request} />
    </Stack>
  )
}

/** What the caller of a failed request was told. */
function Failure({
  request: { error_code: code, error_message: message, error_param: param, count: calls },
}: {
  request: RequestDetail
}) {
  if (message === null) return null
  return (
    <Alert color="red" title="What went wrong">
      {message}
      {calls > 1 && (
        <Text size="sm" mt={4}>
          {count(calls)} calls of this key were refused for this reason within a minute. This is the first.
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
      </Text>
    </Alert>
  )
}

function factsOf(request: RequestDetail): (Fact | null)[] {
  return [
    ['Time', moment(request.created_at)],
    ['Model', request.model || 'none'],
    ['Provider', request.provider ?? 'none'],
    ['Key', <KeyName key="key" value={request.key} />],
    request.error_code === null ? null : ['Error', request.error_code],
    request.mode === null ? null : ['Mode', request.mode],
    ['Cost', usd(request.cost_usd)],
    ['Duration', duration(request.duration_ms)],
    request.first_byte_ms === null ? null : ['First byte', duration(request.first_byte_ms)],
    ['Streaming', request.streamed ? 'yes' : 'no'],
    request.finish_reason === null ? null : ['Finish reason', request.finish_reason],
    request.job_id === null ? null : ['Job', <Work key="job" sort="jobs" id={request.job_id} />],
    request.batch_id === null ? null : ['Batch', <Work key="batch" sort="batches" id={request.batch_id} />],
  ]
}

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
  const { home } = usePlace()
  return (
    <Anchor component={Link} href={`${home}/${sort}/${id}`} size="sm" ff="monospace">
      {id}
    </Anchor>
  )
}
