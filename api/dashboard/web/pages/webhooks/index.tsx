import { Button, Group, Select, Stack, Tabs } from '@mantine/core'
import { IconSend } from '@tabler/icons-react'
import { useState } from 'react'
import { useSearchParams } from 'wouter'
import { TextFilter, useFilter } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { Empty } from '../../components/states.tsx'
import { PagedTable } from '../../components/table.tsx'
import { usePlace } from '../../session.tsx'
import { Alerts } from './alerts.tsx'
import { DeliveryDrawer } from './delivery.tsx'
import { useDeliveries } from './queries.ts'
import { Secret } from './secret.tsx'
import { deliveryColumns } from './table.tsx'
import { TestEvent } from './test-event.tsx'

const statuses = ['pending', 'delivered', 'failed']
const types = [
  ...['job.completed', 'job.failed', 'job.cancelled', 'job.expired'],
  ...['batch.completed', 'batch.failed', 'batch.cancelled', 'batch.expired'],
  ...['key.spend_alert', 'key.blocked', 'wallet.low_balance', 'webhook.test'],
]

export default function Webhooks() {
  const { may } = usePlace()
  const [tab, setTab] = useFilter('tab')
  const [address, setAddress] = useSearchParams()
  const [testing, setTesting] = useState(false)
  const opened = address.get('delivery')
  /** Opens a delivery's drawer, or closes it; the filters are kept. */
  const open = (delivery: string | null) =>
    setAddress(params => {
      const next = new URLSearchParams(params)
      if (delivery === null) next.delete('delivery')
      else next.set('delivery', delivery)
      return next
    })
  const followTest = (delivery: string) => {
    setTesting(false)
    open(delivery)
  }
  return (
    <Page
      title="Webhooks"
      description="Events sent to your webhook endpoints in the last 30 days: jobs, batches, alerts and tests."
      actions={
        may('admin') && (
          <Button leftSection={<IconSend size={16} aria-hidden />} onClick={() => setTesting(true)}>
            Send test event
          </Button>
        )
      }
    >
      {may('admin') ? (
        <Tabs
          value={tab || 'deliveries'}
          onChange={value => setTab(value === 'settings' ? value : '')}
          keepMounted={false}
        >
          <Tabs.List mb="md">
            <Tabs.Tab value="deliveries">Deliveries</Tabs.Tab>
            <Tabs.Tab value="settings">Secret and alerts</Tabs.Tab>
          </Tabs.List>
          <Tabs.Panel value="deliveries">
            <Deliveries onOpen={open} />
          </Tabs.Panel>
          <Tabs.Panel value="settings">
            <Stack gap="xl">
              <Secret />
              <Alerts />
            </Stack>
          </Tabs.Panel>
        </Tabs>
      ) : (
        <Deliveries onOpen={open} />
      )}
      {testing && <TestEvent onSent={followTest} onClose={() => setTesting(false)} />}
      {opened !== null && <DeliveryDrawer key={opened} id={opened} onClose={() => open(null)} />}
    </Page>
  )
}

function Deliveries({ onOpen }: { onOpen: (delivery: string) => void }) {
  const [status] = useFilter('status')
  const [type] = useFilter('type')
  const [url] = useFilter('url')
  const deliveries = useDeliveries({ status, type, url })
  const isFiltered = status + type + url !== ''
  return (
    <Stack>
      <Filters />
      <PagedTable
        label="Deliveries"
        query={deliveries}
        columns={deliveryColumns(onOpen)}
        rowKey={({ id }) => id}
        minWidth={720}
        empty={
          isFiltered ? (
            <Empty title="No deliveries found">Change the filters to see other deliveries.</Empty>
          ) : (
            <Empty title="No deliveries yet">
              Submit a job or a batch with a webhook_url to receive an event when it ends.
            </Empty>
          )
        }
      />
    </Stack>
  )
}

function Filters() {
  const [status, setStatus] = useFilter('status')
  const [type, setType] = useFilter('type')
  const width = { base: '100%', xs: 200 }
  return (
    <Group align="flex-end">
      <Select
        label="Status"
        placeholder="Any"
        clearable
        clearButtonProps={{ 'aria-label': 'Show all statuses' }}
        w={width}
        data={statuses}
        value={status || null}
        onChange={value => setStatus(value ?? '')}
      />
      <Select
        label="Event"
        placeholder="Any"
        clearable
        searchable
        clearButtonProps={{ 'aria-label': 'Show all events' }}
        w={width}
        data={types}
        value={type || null}
        onChange={value => setType(value ?? '')}
      />
      <TextFilter name="url" label="URL" placeholder="Part of the URL" w={width} />
    </Group>
  )
}
