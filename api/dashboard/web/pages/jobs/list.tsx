import { Anchor, Button, Group, Table, Text } from '@mantine/core'
import { Link } from 'wouter'
import type { JobRow, JobStatus } from '../../../wire/jobs.ts'
import { useFilter } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { LiveProgress } from '../../components/progress.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Time } from '../../components/time.tsx'
import { usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { ChoiceFilter, environments, KeyFilter } from '../work/filters.tsx'
import { KeyName } from '../work/parts.tsx'
import { isOver, kindNames, useJobs } from './queries.ts'

const kinds = Object.entries(kindNames).map(([value, label]) => ({ value, label }))
const statuses: { value: JobStatus | 'unfinished'; label: string }[] = [
  { value: 'unfinished', label: 'Unfinished' },
  { value: 'queued', label: 'Queued' },
  { value: 'in_progress', label: 'In progress' },
  { value: 'completed', label: 'Completed' },
  { value: 'failed', label: 'Failed' },
  { value: 'cancelled', label: 'Cancelled' },
  { value: 'expired', label: 'Expired' },
]

/** Jobs of all kinds, the newest first. */
export function JobList() {
  const { home } = usePlace()
  const [kind] = useFilter('kind')
  const [status] = useFilter('status')
  const [environment] = useFilter('environment')
  const [key] = useFilter('key')
  const jobs = useJobs({ kind, status, environment, key })
  const isFiltered = kind + status + environment + key !== ''
  return (
    <Page
      title="Jobs"
      description="Slow work: videos, lip sync, face swaps, avatars, meshes and delayed chats. Unfinished jobs are followed live."
    >
      <Group align="flex-end">
        <ChoiceFilter name="kind" label="Kind" data={kinds} />
        <ChoiceFilter name="status" label="Status" data={statuses} />
        <ChoiceFilter name="environment" label="Environment" data={environments} />
        <KeyFilter />
      </Group>
      <Show query={jobs}>
        {({ pages }) => {
          const rows = pages.flatMap(({ data }) => data)
          if (rows.length > 0) return <JobTable jobs={rows} />
          if (isFiltered) return <Empty title="No job is found">Widen the filters to see others.</Empty>
          return (
            <Empty title="No jobs yet">
              Make a video in the{' '}
              <Anchor component={Link} href={`${home}/playground/video`} inherit>
                playground
              </Anchor>
              , or post to <code>/v1/videos</code>, <code>/v1/meshes</code> or <code>/v1/jobs</code>.
            </Empty>
          )
        }}
      </Show>
      {jobs.hasNextPage && (
        <Group justify="center">
          <Button variant="default" loading={jobs.isFetchingNextPage} onClick={() => void jobs.fetchNextPage()}>
            Show more
          </Button>
        </Group>
      )}
    </Page>
  )
}

function JobTable({ jobs }: { jobs: JobRow[] }) {
  const { home } = usePlace()
  return (
    <Table.ScrollContainer minWidth={820}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Job</Table.Th>
            <Table.Th w={210}>Status</Table.Th>
            <Table.Th>Model</Table.Th>
            <Table.Th>Key</Table.Th>
            <Table.Th ta="right">Cost</Table.Th>
            <Table.Th>Created</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {jobs.map(job => (
            <Table.Tr key={job.id}>
              <Table.Td>
                <Anchor component={Link} href={`${home}/jobs/${job.id}`} size="sm" fw={500}>
                  {kindNames[job.kind]}
                </Anchor>
                <Text size="xs" c="dimmed" ff="monospace" style={{ whiteSpace: 'nowrap' }}>
                  {job.id}
                </Text>
              </Table.Td>
              <Table.Td>
                <State job={job} />
              </Table.Td>
              <Table.Td>
                <Text size="sm">{job.model}</Text>
                <Text size="xs" c="dimmed">
                  {job.provider ?? '–'}
                </Text>
              </Table.Td>
              <Table.Td>
                <Text size="sm" component="div">
                  <KeyName value={job.key} />
                </Text>
                <Status value={job.environment} size="xs" />
              </Table.Td>
              <Table.Td ta="right" className="numeric">
                <Cost job={job} />
              </Table.Td>
              <Table.Td style={{ whiteSpace: 'nowrap' }}>
                <Time at={job.created_at} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  )
}

function State({ job }: { job: JobRow }) {
  return (
    <>
      <Status value={job.status} />
      {!isOver(job) && (
        <LiveProgress label={`Progress of ${job.id}`} percent={job.progress} moving={job.status === 'in_progress'}>
          {job.progress} %
        </LiveProgress>
      )}
      {job.error && (
        <Text size="xs" c="dimmed" lineClamp={2} maw={260} title={job.error.message}>
          {job.error.message}
        </Text>
      )}
    </>
  )
}

/** What a job costs, or what is held for it while that is not known. */
export function Cost({ job: { cost_usd: cost, held_usd: held } }: { job: JobRow }) {
  if (cost !== null) return usd(cost)
  return held > 0 ? `${usd(held)} held` : '–'
}
