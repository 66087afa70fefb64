import { Alert, Anchor, Group, SimpleGrid, Stack, Text } from '@mantine/core'
import { IconAlertTriangle } from '@tabler/icons-react'
import { Link } from 'wouter'
import type { JobDetail } from '../../../wire/jobs.ts'
import { ErrorDocs } from '../../components/error-docs.tsx'
import { type Fact, Facts, Section } from '../../components/facts.tsx'
import { Moments } from '../../components/moments.tsx'
import { Page } from '../../components/page.tsx'
import { LiveProgress } from '../../components/progress.tsx'
import { Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Time } from '../../components/time.tsx'
import { WithCode } from '../../components/with-code.tsx'
import { CallList } from '../../components/work/calls.tsx'
import { Cancel } from '../../components/work/cancel.tsx'
import { Id, KeyName, RawJson, Trail, Webhook } from '../../components/work/parts.tsx'
import { count, timeOfDay } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { Inputs } from './inputs.tsx'
import { kindNames } from './kind-names.ts'
import { Cost } from './list.tsx'
import { isOver, useJob } from './queries.ts'
import { Results } from './results.tsx'

/** One job, polled until it has ended. */
export function JobPage({ id }: { id: string }) {
  const { home } = usePlace()
  const job = useJob(id)
  return (
    <Stack gap="sm">
      <Trail href={`${home}/jobs`} list="Jobs">
        {id}
      </Trail>
      <Page
        id={id}
        title={job.data ? kindNames[job.data.kind] : 'Job'}
        description={
          job.data && (
            <Group gap="xs" aria-live="polite">
              <Status value={job.data.status} />
              <Status value={job.data.environment} />
              {job.data.model}
            </Group>
          )
        }
        actions={
          job.data?.may_cancel && (
            <Cancel what="job" sort="jobs" id={id}>
              {job.data.status === 'queued' || job.data.kind === 'async'
                ? 'The job will not be charged.'
                : 'The provider has already started it: the amount charged or held for it is not refunded.'}
            </Cancel>
          )
        }
      >
        <Show query={job}>{data => <Job job={data} />}</Show>
      </Page>
    </Stack>
  )
}

function Job({ job }: { job: JobDetail }) {
  return (
    <Stack>
      {!isOver(job) && (
        <LiveProgress label="Progress of the job" percent={job.progress} moving={job.status === 'in_progress'}>
          <StateText job={job} />
        </LiveProgress>
      )}
      {job.error && (
        <Alert
          color="red"
          variant="light"
          icon={<IconAlertTriangle aria-hidden />}
          title={<WithCode>{job.error.message}</WithCode>}
        >
          <Text size="xs" c="dimmed">
            {job.error.code} · <ErrorDocs code={job.error.code} />
          </Text>
        </Alert>
      )}
      <Results job={job} />
      <Attempts job={job} />
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
        <Section title="Details">
          <Facts facts={factsOf(job)} />
        </Section>
        <Section title="Timeline">
          <Moments moments={momentsOf(job)} />
        </Section>
      </SimpleGrid>
      <Inputs job={job} />
      <RawJson title="The job as the API returns it" value={job.object} />
    </Stack>
  )
}

function StateText({ job: { status, progress, next_attempt_at: next } }: { job: JobDetail }) {
  if (status !== 'queued') return `${progress} %`
  return next === null ? 'Queued' : `The last attempt failed. Next attempt: ${timeOfDay(next)}`
}

/** The calls to providers, where one of them failed. */
function Attempts({ job: { calls, attempts, created_at, completed_at } }: { job: JobDetail }) {
  if (calls.length === 0) return null
  const endMs = completed_at === null ? Date.now() : Date.parse(completed_at)
  return (
    <Section title="Attempts">
      <CallList calls={calls} durationMs={endMs - Date.parse(created_at)} />
      {attempts > calls.length && (
        <Text size="xs" c="dimmed" mt="xs">
          Only some of the {count(attempts)} attempts are listed.
        </Text>
      )}
    </Section>
  )
}

const endColors = { completed: 'teal', failed: 'red', cancelled: 'gray', expired: 'gray' } as const

function momentsOf(job: JobDetail) {
  const end = isOver(job) ? (job.status as keyof typeof endColors) : 'completed'
  return [
    { label: 'Created', at: job.created_at },
    { label: job.kind === 'async' ? 'Started' : 'Started at the provider', at: job.started_at },
    { label: end[0]!.toUpperCase() + end.slice(1), at: job.completed_at, color: endColors[end] },
  ]
}

function factsOf(job: JobDetail): (Fact | null)[] {
  return [
    ['ID', <Id key="id" value={job.id} label="job ID" />, 'wide'],
    ['Model', job.model],
    ['Provider', job.provider ?? 'not selected yet'],
    ['Key', <KeyName key="key" value={job.key} />],
    ['Cost', <Cost key="cost" job={job} />],
    ['Attempts', job.attempts],
    isOver(job) ? null : ['Expires', <Time key="deadline" at={job.deadline_at} />],
    job.expires_at === null ? null : ['Results deleted', <Time key="expiry" at={job.expires_at} />],
    ['Request', <RequestLink key="request" job={job} />, 'wide'],
    job.webhook_url === null
      ? null
      : ['Webhook', <Webhook key="webhook" url={job.webhook_url} delivery={job.delivery} />, 'wide'],
  ]
}

function RequestLink({ job }: { job: JobDetail }) {
  const { home } = usePlace()
  return (
    <Anchor component={Link} href={`${home}/requests/${job.id}`} size="sm" ff="monospace">
      {job.request_id}
    </Anchor>
  )
}
