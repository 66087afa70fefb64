import { Anchor, Group, Stack, Text, Title } from '@mantine/core'
import { IconDownload } from '@tabler/icons-react'
import type { JobDetail, JobOutput } from '../../../wire/jobs.ts'
import { CodeBox } from '../../components/copy.tsx'
import { Section } from '../../components/facts.tsx'
import { MediaPreview } from '../../components/media-preview.tsx'
import { bytes } from '../../format.ts'
import { kindNames } from './kind-names.ts'

/** The result of a completed job: a preview of its main file and downloads of the others; or the response of a delayed job. */
export function Results({ job }: { job: JobDetail }) {
  const [main, ...others] = job.outputs
  if (job.kind === 'async') return job.status === 'completed' ? <Answer job={job} /> : null
  if (job.status !== 'completed') return null
  if (!main)
    return (
      <Text size="sm" c="dimmed">
        The results of this job have been deleted. See the timeline below for their retention.
      </Text>
    )
  return (
    <Section title="Result">
      <Stack gap="sm">
        <MediaPreview url={main.url} contentType={main.content_type} title={`${kindNames[job.kind]} ${job.id}`} />
        <OutputFile file={main} />
        {others.length > 0 && <Title order={3}>Other files</Title>}
        {others.map(file => (
          <OutputFile key={`${file.type} ${file.url.split('?')[0]}`} file={file} />
        ))}
      </Stack>
    </Section>
  )
}

/** A file to download. */
function OutputFile({ file: { type, url, content_type, bytes: size, duration_s } }: { file: JobOutput }) {
  const about = [content_type, bytes(size), ...(duration_s === null ? [] : [`${duration_s.toFixed(1)} s`])]
  return (
    <Group gap="xs">
      <Anchor href={url} download size="sm" aria-label={`Download the ${type} file`}>
        <IconDownload size={15} aria-hidden style={{ verticalAlign: 'text-bottom' }} /> {type}
      </Anchor>
      <Text size="xs" c="dimmed">
        {about.join(' · ')}
      </Text>
    </Group>
  )
}

type Completion = { choices?: { message?: { content?: unknown } }[] }

function Answer({ job }: { job: JobDetail }) {
  const result = job.object.result as Completion | null
  const content = result?.choices?.[0]?.message?.content
  return (
    <Section title="Response">
      <Stack gap="sm" align="stretch">
        {typeof content === 'string' && (
          <Text size="sm" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
            {content}
          </Text>
        )}
        {result && typeof content !== 'string' && <CodeBox code={JSON.stringify(result, null, 2)} label="Response" />}
        {!result && (
          <Text size="sm" c="dimmed">
            {job.result_url ? 'The response is too long to be shown here.' : 'The response has been deleted.'}
          </Text>
        )}
        {job.result_url && (
          <Anchor href={job.result_url} download={`${job.id}.json`} size="sm">
            Download the full response
          </Anchor>
        )}
      </Stack>
    </Section>
  )
}
