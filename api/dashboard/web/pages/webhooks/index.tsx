import { Button, Tabs } from '@mantine/core'
import { IconSend } from '@tabler/icons-react'
import { useState } from 'react'
import { Route, Switch } from 'wouter'
import { useFilter } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { usePlace } from '../../session.tsx'
import { DeliveryDialog, DeliveryList, useOpenDelivery } from './deliveries.tsx'
import { EndpointPage } from './endpoint.tsx'
import { Endpoints } from './endpoints.tsx'
import { Secret } from './secret.tsx'
import { TestEvent } from './test-event.tsx'

export default function Webhooks() {
  return (
    <Switch>
      <Route path="/:organisation/webhooks/endpoints/:id">{({ id }) => <EndpointPage key={id} id={id} />}</Route>
      <Route>
        <WebhooksPage />
      </Route>
    </Switch>
  )
}

function WebhooksPage() {
  const { may } = usePlace()
  const [tab, setTab] = useFilter('tab')
  const [opened, open] = useOpenDelivery()
  const [testing, setTesting] = useState(false)
  const followTest = (delivery: string) => {
    setTesting(false)
    open(delivery)
  }
  return (
    <Page
      title="Webhooks"
      description="Events sent to your endpoints in the last 30 days: jobs, batches, alerts and tests."
      actions={
        may('manage') && (
          <Button leftSection={<IconSend size={16} aria-hidden />} variant="default" onClick={() => setTesting(true)}>
            Send test event
          </Button>
        )
      }
    >
      <Tabs
        value={tab || 'deliveries'}
        onChange={value => setTab(value === 'deliveries' ? '' : (value ?? ''))}
        keepMounted={false}
      >
        <Tabs.List mb="md">
          <Tabs.Tab value="deliveries">Deliveries</Tabs.Tab>
          <Tabs.Tab value="endpoints">Endpoints</Tabs.Tab>
          {may('manage') && <Tabs.Tab value="settings">Signing secret</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="deliveries">
          <DeliveryList onOpen={open} />
        </Tabs.Panel>
        <Tabs.Panel value="endpoints">
          <Endpoints />
        </Tabs.Panel>
        {may('manage') && (
          <Tabs.Panel value="settings">
            <Secret />
          </Tabs.Panel>
        )}
      </Tabs>
      {testing && <TestEvent onSent={followTest} onClose={() => setTesting(false)} />}
      {opened !== null && <DeliveryDialog id={opened} onClose={() => open(null)} />}
    </Page>
  )
}
