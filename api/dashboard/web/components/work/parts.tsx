import { Accordion, Anchor, Breadcrumbs, Group, Text } from '@mantine/core'
import { Link } from 'wouter'
import type { WorkDelivery, WorkKey } from '../../../wire/jobs.ts'
import { usePlace } from '../../session.tsx'
import { CodeBox, Copy } from '../copy.tsx'
import { listAddress } from '../list-address.ts'
import { Status } from '../status.tsx'

/** A link back to a list, with the filters it had. */
export function Trail({ href, list, children }: { href: string; list: string; children: string }) {
  return (
    <Breadcrumbs>
      <Anchor component={Link} href={listAddress(href)} size="sm">
        {list}
      </Anchor>
      {/* The kit's line height of 1 would cut off underscores and descenders. */}
      <Text size="sm" ff="monospace" lh={1.6} truncate maw={{ base: 180, xs: 400 }}>
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

/** An API key by its name and last characters. */
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

/** The API key of a request, job or batch, and its environment. */
export function keyCell({ key: apiKey, environment }: { key: WorkKey | null; environment: string }) {
  return (
    <>
      <Text size="sm" component="div">
        <KeyName value={apiKey} />
      </Text>
      <Status value={environment} size="xs" />
    </>
  )
}

/** The model of a request or job, and its provider. */
export function modelCell({ model, provider }: { model: string; provider: string | null }) {
  return (
    <>
      <Text size="sm">{model}</Text>
      <Text size="xs" c="dimmed">
        {provider ?? '–'}
      </Text>
    </>
  )
}

/** The status of a webhook, with a link to its delivery. */
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

/** An object as the API returns it. */
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
