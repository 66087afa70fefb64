import { NumberInput, Stack, Text, TextInput, Title } from '@mantine/core'
import { useState } from 'react'
import type { AlertSettings } from '../../../wire/alerts.ts'
import { Form } from '../../components/form.tsx'
import { Show } from '../../components/states.tsx'
import { useAlerts, useChangeAlerts } from './queries.ts'

/** The recipients of alerts, and the low-balance threshold. */
export function Channels() {
  const alerts = useAlerts()
  return (
    <Stack component="section" gap="sm" aria-labelledby="alerts">
      <Title order={2} id="alerts">
        Recipients
      </Title>
      <Show query={alerts} rows={3}>
        {settings => <AlertForm settings={settings} />}
      </Show>
    </Stack>
  )
}

function AlertForm({ settings }: { settings: AlertSettings }) {
  /** The values that the form began with, so that concurrent changes of others are not reverted. */
  const [begun, setBegun] = useState(settings)
  const [url, setUrl] = useState(settings.alert_webhook_url ?? '')
  const [usd, setUsd] = useState<number | string>(settings.low_balance_usd ?? '')
  const alert_webhook_url = url.trim() === '' ? null : url.trim()
  const low_balance_usd = usd === '' ? null : Number(usd)
  const changes = {
    ...(alert_webhook_url !== begun.alert_webhook_url && { alert_webhook_url }),
    ...(low_balance_usd !== begun.low_balance_usd && { low_balance_usd }),
  }
  const save = useChangeAlerts(changes, saved => {
    setBegun(saved)
    setUrl(saved.alert_webhook_url ?? '')
    setUsd(saved.low_balance_usd ?? '')
  })
  const { email_to: addresses } = settings
  return (
    <Stack maw={520} gap="sm">
      <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
        {addresses.length > 0
          ? `Emailed to ${addresses.join(', ')} (owners and admins with a confirmed address).`
          : 'No email recipients yet: no owner or admin has a confirmed address.'}
      </Text>
      <Form mutation={save} submit="Save alerts" disabled={Object.keys(changes).length === 0} w="fit-content">
        <TextInput
          label="Webhook URL"
          description="Alerts are also sent to this URL as webhook events. Leave empty for emails only."
          placeholder="https://example.com/alerts"
          type="url"
          value={url}
          onChange={event => setUrl(event.currentTarget.value)}
        />
        <NumberInput
          label="Low balance threshold"
          description="Send an alert when the available balance falls below this amount. Leave empty for no alert."
          prefix="$"
          min={0}
          max={1_000_000}
          decimalScale={2}
          value={usd}
          onChange={setUsd}
        />
      </Form>
    </Stack>
  )
}
