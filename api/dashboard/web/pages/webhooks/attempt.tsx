import { Badge, Group, Stack, Table, Text, Title } from '@mantine/core'
import type { DeliveryAttempt } from '../../../wire/webhooks.ts'
import { CodeBox } from '../../components/copy.tsx'
import { Time } from '../../components/time.tsx'
import { bytes, duration, moment } from '../../format.ts'

/** The part of a body that is stored. */
const maxBodyBytes = 16 * 1_024

/** A summary of an attempt: result, time and duration. */
export function AttemptSummary({ attempt: { number, at, status, duration_ms } }: { attempt: DeliveryAttempt }) {
  const isTaken = status !== null && status >= 200 && status < 300
  return (
    <Group gap="sm" wrap="nowrap">
      <Text size="sm" fw={500} style={{ whiteSpace: 'nowrap' }}>
        Attempt {number}
      </Text>
      <Badge color={isTaken ? 'green' : 'red'}>{status ?? 'no response'}</Badge>
      <Text size="xs" c="dimmed" className="numeric" component="div">
        {duration(duration_ms)} · <Time at={at} />
      </Text>
    </Group>
  )
}

/** The request and the response of an attempt. */
export function Attempt({ attempt }: { attempt: DeliveryAttempt }) {
  const { at, request, status, error, response } = attempt
  return (
    <Stack gap="md">
      <Text size="xs" c="dimmed">
        {moment(at)}
      </Text>
      <Stack gap="xs">
        <Title order={4} size="sm">
          Response
        </Title>
        {error !== null && (
          <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
            {error}
          </Text>
        )}
        {status !== null && <Text size="sm">HTTP status {status}</Text>}
        {response !== null && <CodeBox code={response} label="response body" />}
        {status !== null && response === null && (
          <Text size="sm" c="dimmed">
            No body.
          </Text>
        )}
      </Stack>
      <Stack gap="xs">
        <Title order={4} size="sm">
          Request
        </Title>
        {request === null ? (
          <Text size="sm" c="dimmed">
            Not stored for this attempt.
          </Text>
        ) : (
          <Request request={request} />
        )}
      </Stack>
    </Stack>
  )
}

function Request({ request: { headers, body } }: { request: NonNullable<DeliveryAttempt['request']> }) {
  const isCut = new Blob([body]).size >= maxBodyBytes
  return (
    <>
      <Table.ScrollContainer minWidth={360}>
        <Table withRowBorders={false} verticalSpacing={2} aria-label="Request headers">
          <Table.Tbody>
            {Object.entries(headers)
              .sort()
              .map(([name, value]) => (
                <Table.Tr key={name}>
                  <Table.Th scope="row" fw={400} w={160}>
                    <Text size="xs" c="dimmed" ff="monospace">
                      {name}
                    </Text>
                  </Table.Th>
                  <Table.Td>
                    <Text size="xs" ff="monospace" style={{ overflowWrap: 'anywhere' }}>
                      {value}
                    </Text>
                  </Table.Td>
                </Table.Tr>
              ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <CodeBox code={indented(body)} label="request body" />
      {isCut && (
        <Text size="xs" c="dimmed">
          First {bytes(maxBodyBytes)} of it.
        </Text>
      )}
    </>
  )
}

/** Formats JSON; truncated text stays as it is. */
function indented(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2)
  } catch {
    return body
  }
}
