import { Anchor, Group, Image, Stack, Text, Title } from '@mantine/core'
import type { JobDetail, JobReference } from '../../../wire/jobs.ts'
import { CodeBox } from '../../components/copy.tsx'
import { Facts, Section } from '../../components/facts.tsx'
import { bytes } from '../../format.ts'

/** Longer values take a whole row. */
const longCharacters = 60

/** The inputs of a job. */
export function Inputs({ job }: { job: JobDetail }) {
  const { inputs, references, request } = job
  if (job.kind === 'async') return <Request request={request} />
  const long = inputs.filter(({ value }) => value.length > longCharacters)
  const short = inputs.filter(({ value }) => value.length <= longCharacters)
  return (
    <Section title="Input">
      <Stack gap="md">
        {long.map(({ field, value }) => (
          <div key={field}>
            <Text size="xs" c="dimmed" ff="monospace">
              {field}
            </Text>
            <Text size="sm" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
              {value}
            </Text>
          </div>
        ))}
        <Facts facts={short.map(({ field, value }) => [field, value])} />
        {references.length > 0 && (
          <>
            <Title order={3}>Files</Title>
            {references.map(reference => (
              <Reference key={reference.field} reference={reference} />
            ))}
          </>
        )}
      </Stack>
    </Section>
  )
}

function Reference({ reference }: { reference: JobReference }) {
  const { field, filename, content_type, bytes: size, duration_s, url } = reference
  const about = [content_type, bytes(size), ...(duration_s === null ? [] : [`${duration_s.toFixed(1)} s`])]
  return (
    <Group wrap="nowrap" gap="sm">
      {url !== null && content_type.startsWith('image/') && (
        <Image src={url} alt={`${field}: ${filename}`} h={64} w="auto" maw={120} fit="contain" radius="sm" />
      )}
      <div style={{ minWidth: 0 }}>
        <Text size="xs" c="dimmed" ff="monospace">
          {field}
        </Text>
        {url === null ? (
          <Text size="sm">{filename} (deleted)</Text>
        ) : (
          <Anchor href={url} target="_blank" rel="noreferrer" size="sm">
            {filename}
          </Anchor>
        )}
        <Text size="xs" c="dimmed">
          {about.join(' · ')}
        </Text>
      </div>
    </Group>
  )
}

function Request({ request }: { request: string | null }) {
  return (
    <Section title="Request">
      {request === null ? (
        <Text size="sm" c="dimmed">
          The request of a delayed job is deleted when the job ends.
        </Text>
      ) : (
        <CodeBox code={indented(request)} label="Request" />
      )}
    </Section>
  )
}

/** Formats JSON; truncated text stays as it is. */
function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return `${text}…`
  }
}
