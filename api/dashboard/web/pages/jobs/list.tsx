import { Anchor, Group, Text } from '@mantine/core'
import { Link } from 'wouter'
import type { JobRow, JobStatus } from '../../../wire/jobs.ts'
import { FilterPanel, useFilter } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { LiveProgress } from '../../components/progress.tsx'
import { SpanPicker, useTime } from '../../components/span.tsx'
import { Empty } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { type Column, PagedTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { ChoiceFilter, environments, IdFilter, KeyFilter, NoMatches } from '../../components/work/filters.tsx'
import { keyCell, modelCell } from '../../components/work/parts.tsx'
import { exactUsd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { kindNames } from './kind-names.ts'
import { isOver, useJobs } from './queries.ts'
import { Thumbnail } from './thumbnail.tsx'

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

/** Jobs of all types, newest first. */
export function JobList() {
  const { home } = usePlace()
  const [kind] = useFilter('kind')
  const [status] = useFilter('status')
  const [environment] = useFilter('environment')
  const [key] = useFilter('key')
  const [q] = useFilter('q')
  const [time, setTime] = useTime('all')
  const jobs = useJobs({ q, kind, status, environment, key, ...time })
  const isFiltered = q + kind + status + environment + key !== '' || Object.keys(time).length > 0
  return (
    <Page
      title="Jobs"
      description="Media jobs (videos, lip sync, face swaps, avatars, meshes) and delayed jobs. Unfinished jobs update automatically."
      actions={<SpanPicker time={time} onChange={setTime} hasAll />}
    >
      <FilterPanel names={['q', 'kind', 'status', 'environment', 'key']}>
        <Group align="flex-end">
          <IdFilter placeholder="Job or request ID" />
          <ChoiceFilter name="kind" label="Type" data={kinds} />
          <ChoiceFilter name="status" label="Status" data={statuses} />
          <ChoiceFilter name="environment" label="Environment" data={environments} />
          <KeyFilter />
        </Group>
      </FilterPanel>
      <PagedTable
        label="Jobs"
        query={jobs}
        columns={columns(home)}
        rowKey={({ id }) => id}
        minWidth={900}
        empty={
          isFiltered ? (
            <NoMatches what="jobs" />
          ) : (
            <Empty title="No jobs yet">
              Create a video in the{' '}
              <Anchor component={Link} href={`${home}/playground/video`} inherit>
                playground
              </Anchor>
              , or send a POST request to <code>/v1/videos</code>, <code>/v1/meshes</code> or <code>/v1/jobs</code>.
            </Empty>
          )
        }
      />
    </Page>
  )
}

const columns = (home: string): Column<JobRow>[] => [
  {
    header: 'Job',
    kind: 'rowHeader',
    card: 'lead',
    cell: ({ id, kind, thumbnail }) => (
      <Group gap="sm" wrap="nowrap">
        <Thumbnail kind={kind} thumbnail={thumbnail} />
        <div>
          <Anchor component={Link} href={`${home}/jobs/${id}`} size="sm" fw={500}>
            {kindNames[kind]}
          </Anchor>
          <Text size="xs" c="dimmed" ff="monospace">
            {id}
          </Text>
        </div>
      </Group>
    ),
  },
  { header: 'Status', width: 210, card: 'line', cell: job => <State job={job} /> },
  { header: 'Model', card: 'line', cell: modelCell },
  { header: 'Key', maxWidth: 260, cell: keyCell },
  { header: 'Cost', kind: 'number', card: 'aside', cell: job => <Cost job={job} /> },
  { header: 'Created', nowrap: true, card: 'line', cell: ({ created_at }) => <Time at={created_at} /> },
]

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

/** The cost of a job, or the amount held for it until that is known. */
export function Cost({ job: { cost_usd: cost, held_usd: held } }: { job: JobRow }) {
  if (cost !== null) return exactUsd(cost)
  return held > 0 ? `${exactUsd(held)} held` : '–'
}
