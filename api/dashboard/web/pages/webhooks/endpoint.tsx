import { Button, Menu, Select, Stack, Tabs, Text } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { useState } from 'react'
import { useLocation } from 'wouter'
import type { DashboardEndpoint, EndpointAnswer } from '../../../wire/webhook-endpoints.ts'
import { Confirm } from '../../components/confirm.tsx'
import { OpenModal } from '../../components/dialogs.tsx'
import { Facts } from '../../components/facts.tsx'
import { useFilter } from '../../components/filters.tsx'
import { Form } from '../../components/form.tsx'
import { Page } from '../../components/page.tsx'
import { SigningSecret } from '../../components/signing-secret.tsx'
import { Show } from '../../components/states.tsx'
import { Trail } from '../../components/work/parts.tsx'
import { duration, moment } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { DeliveryDialog, DeliveryList, useOpenDelivery } from './deliveries.tsx'
import { EditEndpoint } from './endpoint-form.tsx'
import {
  useDeleteEndpoint,
  useEndpoint,
  usePatchEndpoint,
  useResendFailed,
  useRollEndpoint,
  useSendSample,
} from './endpoint-queries.ts'
import { EndpointState, eventsText, LastFailure, Success } from './endpoints.tsx'
import { Verify } from './verify.tsx'

const hourMs = 3_600_000
const resendSpans = [
  { label: 'the last hour', ms: hourMs },
  { label: 'the last 24 hours', ms: 24 * hourMs },
  { label: 'the last 7 days', ms: 7 * 24 * hourMs },
]

/** One endpoint: its figures, deliveries, and how to verify what it receives. */
export function EndpointPage({ id }: { id: string }) {
  const { home, may } = usePlace()
  const endpoint = useEndpoint(id)
  return (
    <Stack gap="sm">
      <Trail href={`${home}/webhooks?tab=endpoints`} list="Endpoints">
        {id}
      </Trail>
      <Page
        title={endpoint.data?.data.url ?? 'Webhook endpoint'}
        {...(endpoint.data && { description: <EndpointState endpoint={endpoint.data.data} /> })}
        actions={may('manage') && endpoint.data && <Actions answer={endpoint.data} />}
      >
        <Show query={endpoint}>{({ data }) => <EndpointTabs endpoint={data} />}</Show>
      </Page>
    </Stack>
  )
}

function EndpointTabs({ endpoint }: { endpoint: DashboardEndpoint }) {
  const { may } = usePlace()
  const [tab, setTab] = useFilter('tab')
  const [opened, open] = useOpenDelivery()
  const { id, figures, events, description, signing_secret, previous_secret_valid_until: until, created_at } = endpoint
  return (
    <Stack>
      <Facts
        facts={[
          ['Success, 24 h', <Success key="success" figures={figures} />],
          ['p95, 24 h', figures.p95_ms === null ? '–' : duration(figures.p95_ms)],
          ['Last failure', <LastFailure key="failure" figures={figures} />],
          ['Events', eventsText(events)],
          ['Signed with', signing_secret === 'own' ? 'its own secret' : 'the organisation’s secret'],
          until === null ? null : ['Previous secret also signs until', moment(until)],
          ['Created', moment(created_at)],
          description === '' ? null : ['Description', description],
        ]}
      />
      <Tabs
        value={tab || 'deliveries'}
        onChange={value => setTab(value === 'deliveries' ? '' : (value ?? ''))}
        keepMounted={false}
      >
        <Tabs.List mb="md">
          <Tabs.Tab value="deliveries">Deliveries</Tabs.Tab>
          {may('manage') && <Tabs.Tab value="verify">Verify</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="deliveries">
          <DeliveryList endpointId={id} onOpen={open} />
        </Tabs.Panel>
        {may('manage') && (
          <Tabs.Panel value="verify">
            <Verify endpointId={id} />
          </Tabs.Panel>
        )}
      </Tabs>
      {opened !== null && <DeliveryDialog id={opened} onClose={() => open(null)} />}
    </Stack>
  )
}

type Asked = 'edit' | 'sample' | 'roll' | 'delete' | null

function Actions({ answer: { data: endpoint, patterns, types } }: { answer: EndpointAnswer }) {
  const { home } = usePlace()
  const [, go] = useLocation()
  const [asked, setAsked] = useState<Asked>(null)
  const [secret, setSecret] = useState<string | null>(null)
  const close = () => setAsked(null)
  const toggle = usePatchEndpoint(endpoint.id, { enabled: !endpoint.enabled })
  const roll = useRollEndpoint(endpoint.id, ({ secret }) => {
    close()
    setSecret(secret)
  })
  const remove = useDeleteEndpoint(endpoint.id, () => go(`${home}/webhooks?tab=endpoints`))
  return (
    <>
      <Button variant="default" loading={toggle.isPending} onClick={() => toggle.mutate()}>
        {endpoint.enabled ? 'Disable' : 'Enable'}
      </Button>
      {endpoint.enabled && <Resend url={endpoint.url} />}
      <Menu>
        <Menu.Target>
          <Button variant="default">More</Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => setAsked('edit')}>Edit</Menu.Item>
          {endpoint.signing_secret === 'own' && <Menu.Item onClick={() => setAsked('roll')}>Roll secret</Menu.Item>}
          <Menu.Item color="red" onClick={() => setAsked('delete')}>
            Delete
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <Button onClick={() => setAsked('sample')}>Send sample</Button>
      {asked === 'edit' && <EditEndpoint endpoint={endpoint} patterns={patterns} onClose={close} />}
      {asked === 'sample' && <Sample id={endpoint.id} types={types} onClose={close} />}
      {asked === 'roll' && (
        <Confirm
          title="Roll the signing secret"
          action="Roll secret"
          danger={false}
          pending={roll.isPending}
          error={roll.error}
          onConfirm={() => roll.mutate()}
          onClose={close}
        >
          Creates a new secret for this endpoint. For 24 hours, its events are signed with both secrets.
        </Confirm>
      )}
      {asked === 'delete' && (
        <Confirm
          title="Delete the endpoint"
          action="Delete endpoint"
          pending={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate()}
          onClose={close}
        >
          {endpoint.url} gets no more events, and its pending deliveries end. The log of its deliveries is kept.
        </Confirm>
      )}
      {secret !== null && <SigningSecret secret={secret} onClose={() => setSecret(null)} />}
    </>
  )
}

/** Redelivers what failed in a time span. */
function Resend({ url }: { url: string }) {
  const resend = useResendFailed(url)
  const start = (ms: number) =>
    resend.mutate(new Date(Date.now() - ms).toISOString(), {
      onSuccess: ({ resent, max }) =>
        notifications.show({
          title: resent === 0 ? 'Nothing to resend' : `${resent} events are being resent`,
          message: resent === max ? 'That is the most at once: resend again for the rest.' : url,
        }),
      onError: error => notifications.show({ color: 'red', title: 'Nothing was resent', message: error.message }),
    })
  return (
    <Menu>
      <Menu.Target>
        <Button variant="default" loading={resend.isPending}>
          Resend failed
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {resendSpans.map(({ label, ms }) => (
          <Menu.Item key={label} onClick={() => start(ms)}>
            Failed in {label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  )
}

/** Sends a sample of an event. */
function Sample({ id, types, onClose }: { id: string; types: string[]; onClose: () => void }) {
  const [, open] = useOpenDelivery()
  const [type, setType] = useState(types[0]!)
  const send = useSendSample(id, type, delivery => {
    onClose()
    open(delivery)
  })
  return (
    <OpenModal onClose={onClose} title="Send a sample event" centered>
      <Form mutation={send} submit="Send sample">
        <Text size="sm">Sends a signed event with made-up data to this endpoint, with the usual retries.</Text>
        <Select
          label="Event"
          data={types}
          allowDeselect={false}
          searchable
          value={type}
          onChange={value => setType(value ?? type)}
        />
      </Form>
    </OpenModal>
  )
}
