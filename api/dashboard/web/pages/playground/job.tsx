import { Anchor, Button, Group, Paper, Progress, Stack, Text } from '@mantine/core'
import { type UseMutationResult, type UseQueryResult, useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from 'wouter'
import type { JobDetail, JobOutput } from '../../../wire/jobs.ts'
import { call } from '../../api.ts'
import { MediaPreview } from '../../components/media-preview.tsx'
import { Empty } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { bytes, exactUsd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { isOver, useJob } from '../jobs/queries.ts'
import { ApiFailure } from './outcome.tsx'
import { usePersistedField } from './persisted-field.ts'
import { usePlayground } from './playground-context.ts'

type JobRun = {
  submit: UseMutationResult<{ id: string }, Error, object>
  cancel: UseMutationResult<JobDetail, Error, void>
  query: UseQueryResult<JobDetail, Error>
}

/**
 * One job at a time of a route: submitted to the API with the key, then followed as the Jobs page follows it, which takes none
 * of the key's requests per minute. It goes on while other tabs are visited.
 */
export function useJobRun(path: string): JobRun {
  const { client } = usePlayground()
  const { id: organisationId, base } = usePlace()
  const queries = useQueryClient()
  const [id, setId] = usePersistedField<string | null>(`${path}.job`, null)
  const query = useJob(id)
  const submit = useMutation({
    mutationFn: (body: object) => client.json<{ id: string }>(path, { body }),
    onSuccess: job => setId(job.id),
  })
  const cancel = useMutation({
    mutationFn: () => call<JobDetail>(`${base}/jobs/${id}/cancel`, { method: 'POST' }),
    onSuccess: job => queries.setQueryData([organisationId, 'jobs', 'one', job.id], job),
  })
  return { submit, cancel, query }
}

/** The progress and the result of a job. */
export function JobPanel({
  run: { submit, cancel, query },
  title,
  empty,
}: {
  run: JobRun
  title: string
  empty: string
}) {
  const { home } = usePlace()
  const { data: job } = query
  const error = submit.error ?? query.error
  if (!job && !error)
    return submit.isPending || query.isLoading ? (
      <Progress value={100} animated aria-label="Submitting" />
    ) : (
      <Empty title={empty} />
    )
  return (
    <Stack gap="sm">
      {error && <ApiFailure error={error} />}
      {job && (
        <Paper withBorder p="md">
          <Stack gap="sm">
            <Group justify="space-between">
              <Group gap="xs">
                <Status value={job.status} />
                <Anchor component={Link} href={`${home}/jobs/${job.id}`} size="xs" ff="monospace">
                  {job.id}
                </Anchor>
              </Group>
              {job.may_cancel && (
                <Button size="compact-xs" variant="default" loading={cancel.isPending} onClick={() => cancel.mutate()}>
                  Cancel job
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
      )}
    </Stack>
  )
}

function wordsOf({ status, progress, model, provider, cost_usd }: JobDetail): string {
  const at = provider ? `${model} at ${provider}` : model
  const words = [
    status === 'queued' ? 'Queued' : status === 'in_progress' ? `${progress} % done` : null,
    at,
    cost_usd !== null && cost_usd > 0 ? exactUsd(cost_usd) : null,
  ]
  return words.filter(Boolean).join(' · ')
}

const isShown = ({ content_type: type }: JobOutput) =>
  /^(?:video|image|audio)\//.test(type) || type === 'model/gltf-binary'

/** A preview of the main file, and downloads of all files. */
function Outputs({ outputs, title }: { outputs: JobOutput[]; title: string }) {
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
