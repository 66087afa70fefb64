import { Accordion, Anchor, Breadcrumbs, Group, Text } from '@mantine/core'
import { Link } from 'wouter'
import type { WorkDelivery, WorkKey } from '../../../wire/jobs.ts'
import { CodeBox, Copy } from '../../components/copy.tsx'
import { Status } from '../../components/status.tsx'
import { usePlace } from '../../session.tsx'

/** The way back to a list. */
export function Trail({ href, list, children }: { href: string; list: string; children: string }) {
  return (
    <Breadcrumbs>
      <Anchor component={Link} href={href} size="sm">
        {list}
      </Anchor>
      <Text size="sm" ff="monospace" truncate maw={{ base: 180, xs: 400 }}>
        {children}
      </Text>
    </Breadcrumbs>
  )
}

export function Id({ value, label }: { value: string; label: string }) {
  return (
    <Group gap={4} wrap="nowrap" component="span">
      <Text span inherit ff="monospace" style={{ overflowWrap: 'anywhere' }}>
        {value}
      </Text>
      <Copy value={value} label={label} />
    </Group>
  )
}

/** A key by its name and last characters. */
export function KeyName({ value }: { value: WorkKey | null }) {
  if (!value) return '–'
  return (
    <>
      {value.name}{' '}
      <Text span size="xs" c="dimmed" ff="monospace">
        …{value.last4}
      </Text>
    </>
  )
}

/** Where a webhook stands, with the way to its deliveries. */
export function Webhook({ url, delivery }: { url: string; delivery: WorkDelivery | null }) {
  const { home } = usePlace()
  return (
    <>
      <Group gap="xs" mb={2}>
        <Status value={delivery?.status ?? 'pending'} />
        {delivery && (
          <Anchor component={Link} href={`${home}/webhooks?delivery=${delivery.id}`} size="xs">
            {delivery.attempts === 1 ? '1 attempt' : `${delivery.attempts} attempts`}
          </Anchor>
        )}
      </Group>
      <Text size="xs" c="dimmed">
        {url}
      </Text>
    </>
  )
}

/** The thing as the API returns it, for who wants to see everything. */
export function RawJson({ title, value }: { title: string; value: object }) {
  return (
    <Accordion variant="contained" keepMounted={false}>
      <Accordion.Item value="json">
        <Accordion.Control>{title}</Accordion.Control>
        <Accordion.Panel>
          <CodeBox code={JSON.stringify(value, null, 2)} label="JSON" />
        </Accordion.Panel>
      </Accordion.Item>
    </Accordion>
  )
}
