import { Anchor, Button, Group, Paper, Progress, Stack, Text } from '@mantine/core'
import { type UseMutationResult, type UseQueryResult, useMutation, useQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import { MediaPreview } from '../../components/media-preview.tsx'
import { Empty } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { bytes, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { useBench } from './bench.ts'
import { useKept } from './kept.ts'
import { ApiFailure } from './outcome.tsx'

type Output = { type: string; url: string; content_type: string; bytes: number }
/** A job as the API gives it. */
export type Job = {
  id: string
  status: 'queued' | 'in_progress' | 'completed' | 'failed' | 'cancelled' | 'expired'
  progress: number
  model: string
  provider: string | null
  outputs: Output[]
  cost_usd: number | null
  error: { code: string; message: string } | null
}

const lookEveryMs = 1_500
const isOver = ({ status }: Job) => status !== 'queued' && status !== 'in_progress'

export type JobRun = {
  submit: UseMutationResult<Job, Error, object>
  cancel: UseMutationResult<Job, Error, void>
  query: UseQueryResult<Job, Error>
  job: Job | undefined
}

/** One job at a time of a route: submitted, looked at until it is over, cancelled. It goes on while other tabs are visited. */
export function useJob(path: string): JobRun {
  const { client } = useBench()
  const [id, setId] = useKept<string | null>(`${path}.job`, null)
  const query = useQuery({
    queryKey: ['playground-job', id],
    queryFn: ({ signal }) => client.json<Job>(`${path}/${id}`, { signal }),
    enabled: id !== null,
    refetchInterval: ({ state: { data, error } }) => (error || (data && isOver(data)) ? false : lookEveryMs),
    // The addresses of results stay as they are, so that what is playing plays on.
    staleTime: Number.POSITIVE_INFINITY,
  })
  const submit = useMutation({
    mutationFn: (body: object) => client.json<Job>(path, { body }),
    onSuccess: job => setId(job.id),
  })
  const cancel = useMutation({
    mutationFn: () => client.json<Job>(`${path}/${id}/cancel`, { method: 'POST' }),
    onSettled: () => void query.refetch(),
  })
  return { submit, cancel, query, job: query.data }
}

/** How far a job is, and what came of it. */
export function JobPanel({ run, title, empty }: { run: JobRun; title: string; empty: string }) {
  const { submit, cancel, query, job } = run
  const { home } = usePlace()
  const error = submit.error ?? query.error
  if (error) return <ApiFailure error={error} />
  if (!job)
    return submit.isPending ? <Progress value={100} animated aria-label="Submitting" /> : <Empty title={empty} />
  return (
    <Paper withBorder p="md">
      <Stack gap="sm">
        <Group justify="space-between">
          <Group gap="xs">
            <Status value={job.status} />
            <Anchor component={Link} href={`${home}/jobs/${job.id}`} size="xs" ff="monospace">
              {job.id}
            </Anchor>
          </Group>
          {!isOver(job) && (
            <Button size="compact-xs" variant="default" loading={cancel.isPending} onClick={() => cancel.mutate()}>
              Cancel the job
            </Button>
          )}
        </Group>
        {!isOver(job) && <Progress value={job.progress} animated aria-label="Progress of the job" />}
        <Text size="xs" c="dimmed" aria-live="polite">
          {wordsOf(job)}
        </Text>
        {cancel.error && <ApiFailure error={cancel.error} />}
        {job.error && <ApiFailure error={new Error(`${job.error.message} (${job.error.code})`)} />}
        <Outputs outputs={job.outputs} title={title} />
      </Stack>
    </Paper>
  )
}

function wordsOf({ status, progress, model, provider, cost_usd }: Job): string {
  const at = provider ? `${model} at ${provider}` : model
  const words = [
    status === 'queued' ? 'Waiting for its turn' : status === 'in_progress' ? `${progress} % done` : null,
    at,
    cost_usd !== null && cost_usd > 0 ? usd(cost_usd) : null,
  ]
  return words.filter(Boolean).join(' · ')
}

const isShown = ({ content_type: type }: Output) =>
  /^(?:video|image|audio)\//.test(type) || type === 'model/gltf-binary'

/** The main result as it looks, all files to save. */
function Outputs({ outputs, title }: { outputs: Output[]; title: string }) {
  const main = outputs.find(isShown)
  if (!main) return null
  return (
    <>
      <MediaPreview url={main.url} contentType={main.content_type} title={title} />
      <Group gap="md">
        {outputs.map(output => (
          <Anchor key={output.url} href={output.url} download target="_blank" rel="noreferrer" size="xs">
            {output.type} ({bytes(output.bytes)})
          </Anchor>
        ))}
      </Group>
    </>
  )
}
