import { Anchor, Button, Divider, Stack, Text, Title } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import type { OutboxItem } from '../../../wire/person.ts'
import { call } from '../../api.ts'
import { Empty, Show } from '../../components/states.tsx'
import { Time } from '../../components/time.tsx'
import { useTitle } from '../../components/title.ts'

const refreshMs = 3_000

/** The emails that a development machine did not send. */
export default function Outbox() {
  useTitle('Outbox')
  const outbox = useQuery({
    queryKey: ['outbox'],
    queryFn: () => call<{ data: OutboxItem[] }>('/dashboard/api/outbox'),
    refetchInterval: refreshMs,
  })
  return (
    <Stack>
      <Title order={1}>Development outbox</Title>
      <Text size="sm" c="dimmed">
        SMTP_URL is not set, so these emails were not sent.
      </Text>
      <Show query={outbox} rows={2}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty title="No emails yet" />
          ) : (
            <Stack component="ul" p={0} m={0} gap="lg" style={{ listStyle: 'none' }}>
              {data.map(({ to, subject, text, link, sent_at }) => (
                <Stack component="li" key={`${sent_at} ${to}`} gap="sm">
                  <div>
                    <Text fw={600}>{subject}</Text>
                    <Text size="xs" c="dimmed" component="div">
                      To {to}, <Time at={sent_at} />
                    </Text>
                  </div>
                  <Text size="sm" style={{ whiteSpace: 'pre-wrap' }}>
                    {text}
                  </Text>
                  {link && (
                    <Button component="a" href={link.url} variant="light" w="fit-content">
                      {link.label}
                    </Button>
                  )}
                  <Divider mt="sm" />
                </Stack>
              ))}
            </Stack>
          )
        }
      </Show>
      <Anchor href="/dashboard/" size="sm">
        Go to the dashboard
      </Anchor>
    </Stack>
  )
}
