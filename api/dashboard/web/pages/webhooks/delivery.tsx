import { Accordion, Anchor, Button, Group, Stack, Text, Title } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import { Link } from 'wouter'
import type { Delivery, DeliveryAnswer, DeliveryAttempt } from '../../../wire/webhooks.ts'
import { Copy } from '../../components/copy.tsx'
import { OpenDrawer } from '../../components/dialogs.tsx'
import { Empty, Failure, Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Time } from '../../components/time.tsx'
import { usePlace } from '../../session.tsx'
import { Attempt, AttemptSummary } from './attempt.tsx'
import { useDelivery, useResend } from './queries.ts'
import { Next, stateOf } from './table.tsx'

/** One delivery with its status and attempts, updated by polling. */
export function DeliveryDrawer({ id, onClose }: { id: string; onClose: () => void }) {
  const delivery = useDelivery(id)
  return (
    <OpenDrawer onClose={onClose} size="xl" title={delivery.data?.type ?? 'Delivery'}>
      <Show query={delivery}>
        {data => (
          <Stack>
            <Facts delivery={data} />
            <Resend delivery={data} />
            <Attempts log={data.log} />
          </Stack>
        )}
      </Show>
    </OpenDrawer>
  )
}

function Facts({ delivery }: { delivery: Delivery }) {
  return (
    <Stack gap="xs">
      <Group gap="xs" aria-live="polite">
        <Status value={stateOf(delivery)} />
        <Next delivery={delivery} />
      </Group>
      <Fact label="URL">{delivery.url}</Fact>
      <Fact label="Event ID (webhook-id)">
        <Group gap={4} wrap="nowrap">
          {delivery.id}
          <Copy value={delivery.id} label="event ID" />
        </Group>
      </Fact>
      <About delivery={delivery} />
      <Group gap="xl">
        <Fact label="Created">
          <Time at={delivery.created_at} />
        </Fact>
        {delivery.delivered_at !== null && (
          <Fact label="Delivered">
            <Time at={delivery.delivered_at} />
          </Fact>
        )}
      </Group>
    </Stack>
  )
}

/** A link to the event's object, if it has a page. */
function About({ delivery: { job_id, batch_id } }: { delivery: Delivery }) {
  const { home } = usePlace()
  const about = job_id !== null ? { page: 'jobs', id: job_id } : batch_id !== null && { page: 'batches', id: batch_id }
  if (!about) return null
  return (
    <Fact label={about.page === 'jobs' ? 'Job' : 'Batch'}>
      <Anchor component={Link} href={`${home}/${about.page}/${about.id}`} size="sm">
        {about.id}
      </Anchor>
    </Fact>
  )
}

function Fact({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div>
      <Text size="xs" c="dimmed">
        {label}
      </Text>
      <Text size="sm" component="div" style={{ overflowWrap: 'anywhere' }}>
        {children}
      </Text>
    </div>
  )
}

function Resend({ delivery: { id, status } }: { delivery: Delivery }) {
  const { may } = usePlace()
  const resend = useResend(id)
  if (!may('manage')) return null
  return (
    <Stack gap="xs" align="flex-start">
      <Button variant="default" size="compact-sm" loading={resend.isPending} onClick={() => resend.mutate()}>
        {status === 'pending' ? 'Send now' : 'Resend'}
      </Button>
      {resend.error && <Failure error={resend.error} />}
    </Stack>
  )
}

/** The latest attempt is expanded until another one is selected. */
function Attempts({ log }: { log: DeliveryAnswer['data']['log'] }) {
  const [chosen, setChosen] = useState<string | null | undefined>(undefined)
  const latest = log.at(-1)
  if (!latest) return <Empty title="No attempts yet">The first attempt starts within seconds.</Empty>
  return (
    <Stack gap="xs" component="section" aria-labelledby="attempts">
      <Title order={3} id="attempts">
        Attempts
      </Title>
      <Accordion
        variant="separated"
        value={chosen === undefined ? String(latest.number) : chosen}
        onChange={setChosen}
        keepMounted={false}
      >
        {log.toReversed().map(attempt => (
          <AttemptItem key={attempt.number} attempt={attempt} />
        ))}
      </Accordion>
    </Stack>
  )
}

function AttemptItem({ attempt }: { attempt: DeliveryAttempt }) {
  return (
    <Accordion.Item value={String(attempt.number)}>
      <Accordion.Control>
        <AttemptSummary attempt={attempt} />
      </Accordion.Control>
      <Accordion.Panel>
        <Attempt attempt={attempt} />
      </Accordion.Panel>
    </Accordion.Item>
  )
}
