import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import type { JobDetail, JobRow, JobsPage } from '../../../wire/jobs.ts'
import { call, queryText } from '../../api.ts'
import type { TimeQuery } from '../../components/span.tsx'
import { usePlace } from '../../session.tsx'

const pageSize = 25
/** The poll interval while a job is running; otherwise nothing is polled. */
const busyMs = 2_000
/** How long after its end a job is polled, until its webhook delivery is shown. */
const afterwardsMs = 30_000
/** How long file URLs are reused: they are valid for an hour. */
const addressesMs = 50 * 60_000

export const isOver = ({ status }: Pick<JobRow, 'status'>) => status !== 'queued' && status !== 'in_progress'

type JobFilters = TimeQuery & { q: string; kind: string; status: string; environment: string; key: string }

/** The jobs that match a filter, paginated; polled while one of them is running. */
export function useJobs(filters: JobFilters) {
  const { id, base } = usePlace()
  return useInfiniteQuery({
    queryKey: [id, 'jobs', 'list', filters],
    queryFn: ({ pageParam, signal }) =>
      call<JobsPage>(`${base}/jobs${queryText({ ...filters, limit: pageSize, after: pageParam })}`, { signal }),
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
    // Each poll refetches all loaded pages, so the interval grows with their number.
    refetchInterval: ({ state: { data } }) =>
      data?.pages.some(page => page.data.some(job => !isOver(job))) ? busyMs * data.pages.length : false,
  })
}

/** One job, polled until it has ended; none if `job` is null. */
export function useJob(job: string | null) {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'jobs', 'one', job],
    queryFn: async ({ signal }): Promise<FollowedJob> => ({
      ...(await call<JobDetail>(`${base}/jobs/${encodeURIComponent(job!)}`, { signal })),
      addressedAtMs: Date.now(),
    }),
    enabled: job !== null,
    refetchInterval: ({ state: { data } }) => (data && isBusy(data) ? busyMs : false),
    structuralSharing: (before, after) => keepFiles(before as FollowedJob | undefined, after as FollowedJob),
  })
}

function isBusy(job: JobDetail): boolean {
  if (!isOver(job)) return true
  return job.delivery?.status === 'pending' && Date.parse(job.completed_at!) > Date.now() - afterwardsMs
}

type FollowedJob = JobDetail & { addressedAtMs: number }

/** Every response has new URLs of the same files: a player keeps the one it has while that is valid. */
function keepFiles(before: FollowedJob | undefined, after: FollowedJob): FollowedJob {
  if (!before || before.completed_at === null || before.outputs.length !== after.outputs.length) return after
  if (!(Date.now() - before.addressedAtMs < addressesMs)) return after
  const { outputs, references, result_url, addressedAtMs } = before
  return { ...after, outputs, references, result_url, addressedAtMs }
}
